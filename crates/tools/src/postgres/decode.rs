//! Conversion of server values to JSON.
//!
//! The server sends results in binary format. A type without a decoder here is returned as the text
//! of its bytes, or else in base64. Cast such a column to text in the query.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::Json;
use tokio_postgres::types::{Field, FromSql, Kind, Type};

use crate::lenient::lenient_json;

/// Raw bytes of a value of any type; `None` is NULL.
#[derive(Debug)]
pub(super) struct RawValue<'r>(pub(super) Option<&'r [u8]>);

impl<'r> FromSql<'r> for RawValue<'r> {
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

/// Converts a value of a type; `None` is NULL.
pub(super) fn decode_cell(ty: &Type, bytes: Option<&[u8]>) -> Json {
    bytes
        .map_or(Json::Null, |bytes| decode_typed(ty, bytes).unwrap_or_else(|| decode_opaque(bytes)))
}

fn decode_typed(ty: &Type, bytes: &[u8]) -> Option<Json> {
    match ty.kind() {
        Kind::Enum(_) => decode_text(bytes),
        Kind::Array(element) => decode_array(element, bytes),
        Kind::Domain(base) => decode_typed(base, bytes),
        Kind::Composite(fields) => decode_composite(fields, bytes),
        Kind::Range(element) => Some(Json::from(decode_range(element, &mut ByteReader(bytes))?)),
        Kind::Multirange(element) => decode_multirange(element, bytes),
        Kind::Simple | Kind::Pseudo => decode_scalar(ty, bytes),
        // The list of kinds is open. A new kind has no decoder.
        _ => None,
    }
}

fn decode_scalar(ty: &Type, bytes: &[u8]) -> Option<Json> {
    let mut reader = ByteReader(bytes);
    Some(match *ty {
        Type::BOOL => Json::from(reader.read_u8()? != 0),
        Type::INT2 => Json::from(i32::from(reader.read_i16()?)),
        Type::INT4 => Json::from(reader.read_i32()?),
        Type::INT8 => Json::from(reader.read_i64()?),
        Type::XID8 => Json::from(u64::from_be_bytes(reader.read_array()?)),
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
        | Type::REGCOLLATION => Json::from(u32::from_be_bytes(reader.read_array()?)),
        Type::FLOAT4 => float_to_json(
            // Converted through text, so that 0.1 stays 0.1.
            f32::from_be_bytes(reader.read_array()?).to_string().parse().ok()?,
        ),
        Type::FLOAT8 => float_to_json(f64::from_be_bytes(reader.read_array()?)),
        Type::NUMERIC => Json::from(decode_numeric(&mut reader)?),
        Type::MONEY => Json::from(format_money(reader.read_i64()?)),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::XML | Type::UNKNOWN => {
            decode_text(bytes)?
        }
        Type::CHAR => Json::from(char::from(reader.read_u8()?).to_string()),
        Type::JSON => decode_json(bytes)?,
        Type::JSONB => decode_json(bytes.strip_prefix(&[1])?)?,
        Type::JSONPATH => decode_text(bytes.strip_prefix(&[1])?)?,
        Type::BYTEA => Json::from(STANDARD.encode(bytes)),
        Type::UUID => Json::from(format_uuid(bytes)?),
        Type::TIMESTAMPTZ
        | Type::TIMESTAMP
        | Type::DATE
        | Type::TIME
        | Type::TIMETZ
        | Type::INTERVAL => Json::from(decode_datetime(ty, &mut reader)?),
        Type::INET | Type::CIDR => Json::from(decode_inet(&mut reader)?),
        Type::MACADDR | Type::MACADDR8 => Json::from(format_hex(bytes, ":")),
        Type::BIT | Type::VARBIT => Json::from(decode_bits(&mut reader)?),
        Type::PG_LSN => {
            let (high, low) = (reader.read_i32()?, reader.read_i32()?);
            Json::from(format!("{high:X}/{low:X}"))
        }
        Type::TID => {
            let (block, offset) =
                (reader.read_i32()?.cast_unsigned(), reader.read_i16()?.cast_unsigned());
            Json::from(format!("({block},{offset})"))
        }
        Type::POINT => {
            let x = f64::from_be_bytes(reader.read_array()?);
            let y = f64::from_be_bytes(reader.read_array()?);
            Json::from(format!("({x},{y})"))
        }
        Type::RECORD => decode_record(&mut reader)?,
        Type::VOID => Json::Null,
        _ => return None,
    })
}

/// Formats a date, a time or an interval. Returns `None` for other types.
fn decode_datetime(ty: &Type, reader: &mut ByteReader<'_>) -> Option<String> {
    Some(match *ty {
        Type::TIMESTAMPTZ => format_timestamp(reader.read_i64()?, "+00:00"),
        Type::TIMESTAMP => format_timestamp(reader.read_i64()?, ""),
        Type::DATE => format_date(reader.read_i32()?),
        Type::TIME => format_time_of_day(reader.read_i64()?),
        Type::TIMETZ => format_time_with_zone(reader.read_i64()?, reader.read_i32()?),
        Type::INTERVAL => {
            let (micros, days, months) =
                (reader.read_i64()?, reader.read_i32()?, reader.read_i32()?);
            format_interval(months, days, micros)
        }
        _ => return None,
    })
}

/// Converts a float. NaN and infinities, which JSON lacks, become texts.
fn float_to_json(value: f64) -> Json {
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

fn decode_text(bytes: &[u8]) -> Option<Json> {
    std::str::from_utf8(bytes).ok().map(Json::from)
}

/// Converts JSON. A value that the event log cannot hold, such as one that is nested too deeply,
/// stays a text.
fn decode_json(bytes: &[u8]) -> Option<Json> {
    lenient_json(bytes).ok().or_else(|| decode_text(bytes))
}

/// Converts a value that has no decoder.
fn decode_opaque(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => Json::from(text),
        Ok(_) | Err(_) => Json::from(STANDARD.encode(bytes)),
    }
}

/// Formats base-10000 digits, the first of which has the exponent `weight`.
fn decode_numeric(reader: &mut ByteReader<'_>) -> Option<String> {
    let count = usize::try_from(reader.read_i16()?).ok()?;
    let weight = i32::from(reader.read_i16()?);
    let sign = reader.read_i16()?.cast_unsigned();
    let scale = usize::try_from(reader.read_i16()?).ok()?;
    match sign {
        0x0000 | 0x4000 => {}
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => return None,
    }
    let digits = (0..count).map(|_| reader.read_i16()).collect::<Option<Vec<i16>>>()?;
    let digit = |exponent: i32| {
        let index = usize::try_from(weight - exponent).ok();
        index.and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let mut integer: String =
        (0..=weight.max(0)).rev().map(|exponent| format!("{:04}", digit(exponent))).collect();
    let zeros = integer.len() - integer.trim_start_matches('0').len();
    integer.drain(..zeros.min(integer.len() - 1));
    let mut fraction = String::new();
    let mut exponent = -1;
    while fraction.len() < scale {
        fraction.push_str(&format!("{:04}", digit(exponent)));
        exponent -= 1;
    }
    fraction.truncate(scale);
    let sign = if sign == 0x4000 { "-" } else { "" };
    let point = if scale == 0 { "" } else { "." };
    Some(format!("{sign}{integer}{point}{fraction}"))
}

/// Formats money with the two decimal places that most currencies have.
fn format_money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}

fn format_uuid(bytes: &[u8]) -> Option<String> {
    let hex = format_hex(bytes, "");
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

fn format_hex(bytes: &[u8], separator: &str) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(separator)
}

fn decode_inet(reader: &mut ByteReader<'_>) -> Option<String> {
    let (_family, bits, is_cidr, length) =
        (reader.read_u8()?, reader.read_u8()?, reader.read_u8()?, reader.read_u8()?);
    let (address, full_length) = match length {
        4 => (Ipv4Addr::from(reader.read_array::<4>()?).to_string(), 32),
        16 => (Ipv6Addr::from(reader.read_array::<16>()?).to_string(), 128),
        _ => return None,
    };
    Some(if is_cidr != 0 || bits != full_length { format!("{address}/{bits}") } else { address })
}

fn decode_bits(reader: &mut ByteReader<'_>) -> Option<String> {
    let length = usize::try_from(reader.read_i32()?).ok()?;
    let bits: String = reader.0.iter().map(|byte| format!("{byte:08b}")).collect();
    bits.get(..length).map(str::to_owned)
}

/// Converts an array, with lists nested by its dimensions.
fn decode_array(element: &Type, bytes: &[u8]) -> Option<Json> {
    let mut reader = ByteReader(bytes);
    let dimensions = usize::try_from(reader.read_i32()?).ok()?;
    let _has_nulls = reader.read_i32()?;
    let _element = reader.read_i32()?;
    if dimensions == 0 {
        return Some(Json::list([]));
    }
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        lengths.push(usize::try_from(reader.read_i32()?).ok()?);
        let _first_index = reader.read_i32()?;
    }
    decode_dimension(element, &lengths, &mut reader)
}

fn decode_dimension(
    element: &Type,
    lengths: &[usize],
    reader: &mut ByteReader<'_>,
) -> Option<Json> {
    let Some((length, inner)) = lengths.split_first() else {
        return Some(decode_cell(element, reader.read_sized()?));
    };
    let items = (0..*length).map(|_| decode_dimension(element, inner, reader));
    items.collect::<Option<Vec<Json>>>().map(Json::from)
}

fn decode_composite(fields: &[Field], bytes: &[u8]) -> Option<Json> {
    let mut reader = ByteReader(bytes);
    let _count = reader.read_i32()?;
    let entries = fields.iter().map(|field| {
        let _type = reader.read_i32()?;
        Some((field.name(), decode_cell(field.type_(), reader.read_sized()?)))
    });
    entries.collect::<Option<Vec<_>>>().map(Json::object)
}

/// Converts a row whose columns have types but no names.
fn decode_record(reader: &mut ByteReader<'_>) -> Option<Json> {
    let count = reader.read_i32()?;
    let values = (0..count).map(|_| {
        let ty = Type::from_oid(reader.read_i32()?.cast_unsigned()).unwrap_or(Type::UNKNOWN);
        Some(decode_cell(&ty, reader.read_sized()?))
    });
    values.collect::<Option<Vec<Json>>>().map(Json::from)
}

/// Formats a range as the server does: `[1,5)`.
fn decode_range(element: &Type, reader: &mut ByteReader<'_>) -> Option<String> {
    const EMPTY: u8 = 0x01;
    const LOWER_INCLUSIVE: u8 = 0x02;
    const UPPER_INCLUSIVE: u8 = 0x04;
    const LOWER_INFINITE: u8 = 0x08;
    const UPPER_INFINITE: u8 = 0x10;
    let flags = reader.read_u8()?;
    let has = |flag: u8| flags & flag != 0;
    if has(EMPTY) {
        return Some("empty".to_owned());
    }
    let mut bound = |infinite: u8| {
        if has(infinite) {
            return Some(String::new());
        }
        let bound = decode_cell(element, reader.read_sized()?);
        Some(bound.as_str().map_or_else(|| bound.to_string(), str::to_owned))
    };
    let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
    let open = if has(LOWER_INCLUSIVE) { '[' } else { '(' };
    let close = if has(UPPER_INCLUSIVE) { ']' } else { ')' };
    Some(format!("{open}{lower},{upper}{close}"))
}

fn decode_multirange(element: &Type, bytes: &[u8]) -> Option<Json> {
    let mut reader = ByteReader(bytes);
    let count = reader.read_i32()?;
    let ranges = (0..count).map(|_| decode_range(element, &mut ByteReader(reader.read_sized()??)));
    ranges.map(|range| range.map(Json::from)).collect::<Option<Vec<Json>>>().map(Json::from)
}

/// Remaining bytes. Every read returns `None` if too few are left.
#[derive(Debug)]
pub(super) struct ByteReader<'r>(pub(super) &'r [u8]);

impl<'r> ByteReader<'r> {
    pub(super) fn take_bytes(&mut self, length: usize) -> Option<&'r [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn read_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take_bytes(N)?.try_into().ok()
    }

    pub(super) fn read_u8(&mut self) -> Option<u8> {
        self.read_array().map(u8::from_be_bytes)
    }

    pub(super) fn read_i16(&mut self) -> Option<i16> {
        self.read_array().map(i16::from_be_bytes)
    }

    pub(super) fn read_i32(&mut self) -> Option<i32> {
        self.read_array().map(i32::from_be_bytes)
    }

    pub(super) fn read_i64(&mut self) -> Option<i64> {
        self.read_array().map(i64::from_be_bytes)
    }

    /// Reads a value that is preceded by its length. The inner `None` is NULL, whose length is -1.
    #[expect(clippy::option_option, reason = "missing bytes and NULL are different cases")]
    pub(super) fn read_sized(&mut self) -> Option<Option<&'r [u8]>> {
        let length = self.read_i32()?;
        match usize::try_from(length) {
            Ok(length) => self.take_bytes(length).map(Some),
            Err(_) => Some(None),
        }
    }
}

// The server counts from 2000-01-01, and its years range from 4713 BC to 294276. Years before year 1
// are written in ISO numbering: year 0 is 1 BC.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days from 0000-03-01 to 2000-01-01.
const DAYS_TO_2000: i64 = 730_425;

/// Formats a timestamp in microseconds, followed by `zone`.
pub(super) fn format_timestamp(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => {
            let day = format_calendar_date(micros.div_euclid(MICROS_PER_DAY));
            let time = format_time_of_day(micros.rem_euclid(MICROS_PER_DAY));
            format!("{day}T{time}{zone}")
        }
    }
}

pub(super) fn format_date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        _ => format_calendar_date(days.into()),
    }
}

/// Formats a time of day in microseconds, including `24:00:00`.
pub(super) fn format_time_of_day(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SECOND;
    let (hours, minutes, rest_seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{rest_seconds:02}{}", format_fraction(micros))
}

/// Formats a time of day with the number of seconds that its zone is behind UTC.
pub(super) fn format_time_with_zone(micros: i64, seconds_west: i32) -> String {
    let sign = if seconds_west > 0 { '-' } else { '+' };
    let offset = seconds_west.unsigned_abs();
    let (hours, minutes, seconds) = (offset / 3600, offset / 60 % 60, offset % 60);
    let mut text = format!("{}{sign}{hours:02}:{minutes:02}", format_time_of_day(micros));
    if seconds != 0 {
        text.push_str(&format!(":{seconds:02}"));
    }
    text
}

/// Formats an interval. Its three parts do not convert into each other, and each has its own sign.
pub(super) fn format_interval(months: i32, days: i32, micros: i64) -> String {
    let mut text = String::from("P");
    push_unit(&mut text, (months / 12).into(), 'Y');
    push_unit(&mut text, (months % 12).into(), 'M');
    push_unit(&mut text, days.into(), 'D');
    if micros != 0 {
        let seconds = micros / MICROS_PER_SECOND;
        text.push('T');
        push_unit(&mut text, seconds / 3600, 'H');
        push_unit(&mut text, seconds / 60 % 60, 'M');
        let (rest, fraction) = (seconds % 60, format_fraction(micros));
        if rest != 0 || !fraction.is_empty() {
            // The sign would be lost if only a fraction is left.
            let sign = if micros < 0 { "-" } else { "" };
            text.push_str(&format!("{sign}{}{fraction}S", rest.abs()));
        }
    }
    if text == "P" { "PT0S".to_owned() } else { text }
}

fn push_unit(text: &mut String, count: i64, unit: char) {
    if count != 0 {
        text.push_str(&format!("{count}{unit}"));
    }
}

/// Fraction of a second with its decimal point, or an empty text.
fn format_fraction(micros: i64) -> String {
    match micros.unsigned_abs() % MICROS_PER_SECOND.unsigned_abs() {
        0 => String::new(),
        rest => format!(".{rest:06}"),
    }
}

/// Formats the date that is `days` after 2000-01-01, in the proleptic Gregorian calendar.
///
/// Years are counted from March, so that a leap day is the last day of its year and the lengths of
/// months follow a linear formula.
fn format_calendar_date(days: i64) -> String {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + DAYS_TO_2000;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_from_march + 2) / 5 + 1;
    let month = if months_from_march < 10 { months_from_march + 3 } else { months_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

#[cfg(test)]
mod tests;
