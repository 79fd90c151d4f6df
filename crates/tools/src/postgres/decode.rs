//! Values of the server as JSON.
//!
//! The server sends results in its binary form. Whatever has no reader here is given as the text
//! that its bytes are, or else in base64; such a column can be had as text with a cast.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::Json;
use tokio_postgres::types::{Field, FromSql, Kind, Type};

use super::moment;
use super::reader::Reader;
use crate::lenient::lenient_json;

/// The bytes of a value, whatever its type; `None` is NULL.
#[derive(Debug)]
pub(super) struct Raw<'r>(pub(super) Option<&'r [u8]>);

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A value of a type; `None` is NULL.
pub(super) fn value(ty: &Type, bytes: Option<&[u8]>) -> Json {
    bytes.map_or(Json::Null, |bytes| {
        typed(ty, bytes).unwrap_or_else(|| opaque(bytes))
    })
}

fn typed(ty: &Type, bytes: &[u8]) -> Option<Json> {
    match ty.kind() {
        Kind::Enum(_) => text(bytes),
        Kind::Array(element) => array(element, bytes),
        Kind::Domain(base) => typed(base, bytes),
        Kind::Composite(fields) => composite(fields, bytes),
        Kind::Range(element) => Some(Json::from(range(element, &mut Reader(bytes))?)),
        Kind::Multirange(element) => multirange(element, bytes),
        Kind::Simple | Kind::Pseudo => scalar(ty, bytes),
        // The list of kinds is open; a new one has no reader.
        _ => None,
    }
}

fn scalar(ty: &Type, bytes: &[u8]) -> Option<Json> {
    let mut reader = Reader(bytes);
    Some(match *ty {
        Type::BOOL => Json::from(reader.u8()? != 0),
        Type::INT2 => Json::from(i32::from(reader.i16()?)),
        Type::INT4 => Json::from(reader.i32()?),
        Type::INT8 => Json::from(reader.i64()?),
        Type::XID8 => Json::from(u64::from_be_bytes(reader.array()?)),
        Type::OID
        | Type::XID
        | Type::CID
        | Type::REGCLASS
        | Type::REGTYPE
        | Type::REGPROC
        | Type::REGPROCEDURE
        | Type::REGOPER
        | Type::REGOPERATOR
        | Type::REGROLE
        | Type::REGNAMESPACE
        | Type::REGCONFIG
        | Type::REGDICTIONARY
        | Type::REGCOLLATION => Json::from(u32::from_be_bytes(reader.array()?)),
        Type::FLOAT4 => float(
            // By way of its text, so that 0.1 stays 0.1.
            f32::from_be_bytes(reader.array()?)
                .to_string()
                .parse()
                .ok()?,
        ),
        Type::FLOAT8 => float(f64::from_be_bytes(reader.array()?)),
        Type::NUMERIC => Json::from(numeric(&mut reader)?),
        Type::MONEY => Json::from(money(reader.i64()?)),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::XML | Type::UNKNOWN => {
            text(bytes)?
        }
        Type::CHAR => Json::from(char::from(reader.u8()?).to_string()),
        Type::JSON => json(bytes)?,
        Type::JSONB => json(bytes.strip_prefix(&[1])?)?,
        Type::JSONPATH => text(bytes.strip_prefix(&[1])?)?,
        Type::BYTEA => Json::from(STANDARD.encode(bytes)),
        Type::UUID => Json::from(uuid(bytes)?),
        Type::TIMESTAMPTZ => Json::from(moment::timestamp(reader.i64()?, "+00:00")),
        Type::TIMESTAMP => Json::from(moment::timestamp(reader.i64()?, "")),
        Type::DATE => Json::from(moment::date(reader.i32()?)),
        Type::TIME => Json::from(moment::time(reader.i64()?)),
        Type::TIMETZ => Json::from(moment::time_with_zone(reader.i64()?, reader.i32()?)),
        Type::INTERVAL => {
            let (micros, days, months) = (reader.i64()?, reader.i32()?, reader.i32()?);
            Json::from(moment::interval(months, days, micros))
        }
        Type::INET | Type::CIDR => Json::from(network(&mut reader)?),
        Type::MACADDR | Type::MACADDR8 => Json::from(hex(bytes, ":")),
        Type::BIT | Type::VARBIT => Json::from(bits(&mut reader)?),
        Type::PG_LSN => {
            let (high, low) = (reader.i32()?, reader.i32()?);
            Json::from(format!("{high:X}/{low:X}"))
        }
        Type::TID => {
            let (block, offset) = (reader.i32()?.cast_unsigned(), reader.i16()?.cast_unsigned());
            Json::from(format!("({block},{offset})"))
        }
        Type::POINT => {
            let x = f64::from_be_bytes(reader.array()?);
            let y = f64::from_be_bytes(reader.array()?);
            Json::from(format!("({x},{y})"))
        }
        Type::RECORD => record(&mut reader)?,
        Type::VOID => Json::Null,
        _ => return None,
    })
}

/// What is not a number in JSON is a text.
fn float(value: f64) -> Json {
    Json::from_f64(value).unwrap_or_else(|_| {
        Json::from(if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        })
    })
}

fn text(bytes: &[u8]) -> Option<Json> {
    std::str::from_utf8(bytes).ok().map(Json::from)
}

/// JSON that the log cannot hold, such as one that is nested too deeply, stays a text.
fn json(bytes: &[u8]) -> Option<Json> {
    lenient_json(bytes).ok().or_else(|| text(bytes))
}

/// A value that has no reader.
fn opaque(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => Json::from(text),
        Ok(_) | Err(_) => Json::from(STANDARD.encode(bytes)),
    }
}

/// Digits to the base of 10 000, the first of them at `weight`.
fn numeric(reader: &mut Reader<'_>) -> Option<String> {
    let count = usize::try_from(reader.i16()?).ok()?;
    let weight = i32::from(reader.i16()?);
    let sign = reader.i16()?.cast_unsigned();
    let scale = usize::try_from(reader.i16()?).ok()?;
    match sign {
        0x0000 | 0x4000 => {}
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => return None,
    }
    let digits = (0..count)
        .map(|_| reader.i16())
        .collect::<Option<Vec<i16>>>()?;
    let digit = |exponent: i32| {
        let index = usize::try_from(weight - exponent).ok();
        index
            .and_then(|index| digits.get(index))
            .copied()
            .unwrap_or(0)
    };
    let mut whole: String = (0..=weight.max(0))
        .rev()
        .map(|exponent| format!("{:04}", digit(exponent)))
        .collect();
    let zeros = whole.len() - whole.trim_start_matches('0').len();
    whole.drain(..zeros.min(whole.len() - 1));
    let mut fraction = String::new();
    let mut exponent = -1;
    while fraction.len() < scale {
        fraction.push_str(&format!("{:04}", digit(exponent)));
        exponent -= 1;
    }
    fraction.truncate(scale);
    let sign = if sign == 0x4000 { "-" } else { "" };
    let point = if scale == 0 { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

/// Money with the two places that most currencies have.
fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let hex = hex(bytes, "");
    let group = |from: usize, to: usize| hex.get(from..to);
    Some(format!(
        "{}-{}-{}-{}-{}",
        group(0, 8)?,
        group(8, 12)?,
        group(12, 16)?,
        group(16, 20)?,
        group(20, 32)?
    ))
}

fn hex(bytes: &[u8], between: &str) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(between)
}

fn network(reader: &mut Reader<'_>) -> Option<String> {
    let (_family, bits, is_cidr, length) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
    let (address, most) = match length {
        4 => (Ipv4Addr::from(reader.array::<4>()?).to_string(), 32),
        16 => (Ipv6Addr::from(reader.array::<16>()?).to_string(), 128),
        _ => return None,
    };
    Some(if is_cidr != 0 || bits != most {
        format!("{address}/{bits}")
    } else {
        address
    })
}

fn bits(reader: &mut Reader<'_>) -> Option<String> {
    let length = usize::try_from(reader.i32()?).ok()?;
    let all: String = reader.0.iter().map(|byte| format!("{byte:08b}")).collect();
    all.get(..length).map(str::to_owned)
}

/// Elements in the order of the server, nested by their dimensions.
fn array(element: &Type, bytes: &[u8]) -> Option<Json> {
    let mut reader = Reader(bytes);
    let dimensions = usize::try_from(reader.i32()?).ok()?;
    let _has_nulls = reader.i32()?;
    let _element = reader.i32()?;
    if dimensions == 0 {
        return Some(Json::list([]));
    }
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        lengths.push(usize::try_from(reader.i32()?).ok()?);
        let _first_index = reader.i32()?;
    }
    nested(element, &lengths, &mut reader)
}

fn nested(element: &Type, lengths: &[usize], reader: &mut Reader<'_>) -> Option<Json> {
    let Some((length, inner)) = lengths.split_first() else {
        return Some(value(element, reader.sized()?));
    };
    let items = (0..*length).map(|_| nested(element, inner, reader));
    items.collect::<Option<Vec<Json>>>().map(Json::from)
}

fn composite(fields: &[Field], bytes: &[u8]) -> Option<Json> {
    let mut reader = Reader(bytes);
    let _count = reader.i32()?;
    let entries = fields.iter().map(|field| {
        let _type = reader.i32()?;
        Some((field.name(), value(field.type_(), reader.sized()?)))
    });
    entries.collect::<Option<Vec<_>>>().map(Json::object)
}

/// A row whose columns have types but no names.
fn record(reader: &mut Reader<'_>) -> Option<Json> {
    let count = reader.i32()?;
    let values = (0..count).map(|_| {
        let ty = Type::from_oid(reader.i32()?.cast_unsigned()).unwrap_or(Type::UNKNOWN);
        Some(value(&ty, reader.sized()?))
    });
    values.collect::<Option<Vec<Json>>>().map(Json::from)
}

/// A range as the server writes it: `[1,5)`.
fn range(element: &Type, reader: &mut Reader<'_>) -> Option<String> {
    const EMPTY: u8 = 0x01;
    const LOWER_INCLUSIVE: u8 = 0x02;
    const UPPER_INCLUSIVE: u8 = 0x04;
    const LOWER_INFINITE: u8 = 0x08;
    const UPPER_INFINITE: u8 = 0x10;
    let flags = reader.u8()?;
    let has = |flag: u8| flags & flag != 0;
    if has(EMPTY) {
        return Some("empty".to_owned());
    }
    let mut bound = |infinite: u8| {
        if has(infinite) {
            return Some(String::new());
        }
        let bound = value(element, reader.sized()?);
        Some(
            bound
                .as_str()
                .map_or_else(|| bound.to_string(), str::to_owned),
        )
    };
    let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
    let open = if has(LOWER_INCLUSIVE) { '[' } else { '(' };
    let close = if has(UPPER_INCLUSIVE) { ']' } else { ')' };
    Some(format!("{open}{lower},{upper}{close}"))
}

fn multirange(element: &Type, bytes: &[u8]) -> Option<Json> {
    let mut reader = Reader(bytes);
    let count = reader.i32()?;
    let ranges = (0..count).map(|_| range(element, &mut Reader(reader.sized()??)));
    ranges
        .map(|range| range.map(Json::from))
        .collect::<Option<Vec<Json>>>()
        .map(Json::from)
}
