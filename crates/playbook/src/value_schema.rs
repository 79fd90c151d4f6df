//! Validates values with a subset of JSON Schema (draft 2020-12).
//!
//! Schemas describe payloads of signals and values of forms. The subset has no keyword that needs
//! the network, the results of other keywords, or a backtracking regex. A schema with any other
//! keyword is rejected, so no rule of an author is ignored.
//!
//! All costs are bounded, because a small schema with references can describe an exponential search:
//! the size of the schema, the memory of its compiled patterns, and the steps and the depth of the
//! validations of one [`SchemaValidator`].

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use noetl_types::json::to_canonical;
use noetl_types::{Json, JsonMap};
use regex::{Regex, RegexBuilder};

use crate::bounds::fits_within;

/// Maximum size of a schema.
pub const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// Maximum memory of all compiled patterns of a schema.
pub const MAX_PATTERN_BYTES: usize = 256 << 10;

/// Sizes of compiled patterns that are tried. The work to match a text is proportional to the size
/// of the compiled pattern.
const PATTERN_SIZES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, MAX_PATTERN_BYTES];

/// Maximum number of steps of the validations of one validator.
const MAX_STEPS: usize = 200_000;

/// Maximum nesting of schemas in one validation.
const MAX_DEPTH: usize = 192;

/// Bytes of a text that are compared in one step.
const BYTES_PER_STEP: usize = 64;

/// Size of a compiled pattern that searches one byte of a text in one step.
const PATTERN_BYTES_PER_STEP: usize = 1 << 10;

type Accepts = fn(Ordering) -> bool;

/// Keywords that limit a number or a size, the accepted orders of the measured number and the limit,
/// and the reason of a violation.
const BOUNDS: [(&str, Accepts, &str); 10] = [
    ("exclusiveMaximum", Ordering::is_lt, "is greater than or equal to the maximum of"),
    ("exclusiveMinimum", Ordering::is_gt, "is less than or equal to the minimum of"),
    ("maximum", Ordering::is_le, "is greater than the maximum of"),
    ("minimum", Ordering::is_ge, "is less than the minimum of"),
    ("maxItems", Ordering::is_le, "has more items than"),
    ("minItems", Ordering::is_ge, "has fewer items than"),
    ("maxLength", Ordering::is_le, "has more characters than"),
    ("minLength", Ordering::is_ge, "has fewer characters than"),
    ("maxProperties", Ordering::is_le, "has more properties than"),
    ("minProperties", Ordering::is_ge, "has fewer properties than"),
];

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A rejected schema or value, and the path to the rejected part. The text is built only when it is
/// displayed: most violations are those of alternatives that were not chosen.
#[derive(Debug)]
pub struct SchemaViolation<'a> {
    subject: Option<&'a Json>,
    reason: String,
    object: Option<&'a Json>,
    /// Keys and indexes, innermost first.
    path: Vec<String>,
}

impl<'a> SchemaViolation<'a> {
    fn new(subject: Option<&'a Json>, reason: impl Into<String>, object: Option<&'a Json>) -> Self {
        Self { subject, reason: reason.into(), object, path: Vec::new() }
    }

    fn inside(mut self, key: impl fmt::Display) -> Self {
        self.path.push(key.to_string().replace('~', "~0").replace('/', "~1"));
        self
    }
}

impl fmt::Display for SchemaViolation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subject) = self.subject {
            write!(f, "{subject} ")?;
        }
        f.write_str(&self.reason)?;
        if let Some(object) = self.object {
            write!(f, " {object}")?;
        }
        let path: String = self.path.iter().rev().flat_map(|key| ["/", key]).collect();
        write!(f, " (at `{path}`)")
    }
}

type Checked<'a> = Result<(), SchemaViolation<'a>>;

/// Checks that a schema uses only supported keywords, and uses them correctly.
pub fn check_schema(schema: &Json) -> Checked<'_> {
    SchemaValidator::new(schema).map(drop)
}

/// Checks a value against a schema. An invalid schema rejects every value.
pub fn check_value<'a>(schema: &'a Json, value: &'a Json) -> Checked<'a> {
    SchemaValidator::new(schema)?.check_value(value)
}

/// A checked schema, with the state of its validations.
pub struct SchemaValidator<'a> {
    root: &'a Json,
    patterns: BTreeMap<&'a str, CompiledPattern>,
    pattern_bytes: usize,
    steps: usize,
    depth: usize,
}

struct CompiledPattern {
    regex: Regex,
    /// Upper bound of its memory.
    bytes: usize,
}

impl<'a> SchemaValidator<'a> {
    /// Checks a schema and compiles its patterns.
    pub fn new(schema: &'a Json) -> Result<Self, SchemaViolation<'a>> {
        if !fits_within(schema, MAX_SCHEMA_BYTES) {
            let reason = format!("the schema is larger than {MAX_SCHEMA_BYTES} bytes");
            return Err(SchemaViolation::new(None, reason, None));
        }
        let mut validator =
            Self { root: schema, patterns: BTreeMap::new(), pattern_bytes: 0, steps: 0, depth: 0 };
        validator.check_subschema(schema)?;
        Ok(validator)
    }

    /// Checks a value. All values that a validator checks share its steps.
    pub fn check_value(&mut self, value: &'a Json) -> Checked<'a> {
        self.depth = 0;
        self.apply(self.root, value)
    }

    fn check_subschema(&mut self, schema: &'a Json) -> Checked<'a> {
        match schema {
            Json::Bool(_) => Ok(()),
            Json::Map(keywords) => keywords.iter().try_for_each(|(keyword, argument)| {
                self.check_keyword(keyword, argument).map_err(|error| error.inside(keyword))
            }),
            _ => Err(SchemaViolation::new(Some(schema), "is not a schema", None)),
        }
    }

    fn check_keyword(&mut self, keyword: &str, argument: &'a Json) -> Checked<'a> {
        let is_text = |item: &Json| item.as_str().is_some();
        let is_type = |name: &Json| name.as_str().is_some_and(|name| TYPES.contains(&name));
        let all = |is_valid: &dyn Fn(&Json) -> bool| {
            argument.as_list().is_some_and(|items| items.iter().all(is_valid))
        };
        let (is_valid, expected) = match keyword {
            "const" => (true, "a value"),
            "type" => (is_type(argument) || all(&is_type), "the name of a type, or a list of them"),
            "enum" => (argument.as_list().is_some(), "a list"),
            "required" => (all(&is_text), "a list of strings"),
            "uniqueItems" => (argument.as_bool().is_some(), "a boolean"),
            _ if BOUNDS.iter().any(|(name, ..)| *name == keyword) => {
                if keyword.ends_with("imum") {
                    (argument.as_f64().is_some(), "a number")
                } else {
                    (argument.as_u64().is_some(), "an integer that is not negative")
                }
            }
            "pattern" => (
                argument.as_str().is_some_and(|pattern| self.add_pattern(pattern)),
                "a small regular expression without look-around and back-references",
            ),
            "$ref" => {
                let target = argument.as_str().and_then(|reference| resolve(self.root, reference));
                (target.is_some(), "a reference to a definition, such as `#/$defs/name`")
            }
            "items" | "additionalProperties" | "not" => return self.check_subschema(argument),
            "allOf" | "anyOf" | "oneOf" => match argument.as_list() {
                Some(schemas) if !schemas.is_empty() => {
                    return self.check_subschemas(schemas.iter().enumerate());
                }
                _ => (false, "a list of schemas"),
            },
            "properties" | "$defs" | "definitions" => match argument.as_map() {
                Some(schemas) => return self.check_subschemas(schemas),
                None => (false, "a map of schemas"),
            },
            // These describe a value and never reject one.
            "$comment" | "$id" | "$schema" | "contentEncoding" | "contentMediaType" | "default"
            | "deprecated" | "description" | "examples" | "format" | "readOnly" | "title"
            | "writeOnly" => return Ok(()),
            _ if keyword.starts_with("x-") => return Ok(()),
            _ => return Err(SchemaViolation::new(None, "keyword is not supported", None)),
        };
        let violation = || {
            let reason = format!("is not valid: expected {expected}");
            SchemaViolation::new(Some(argument), reason, None)
        };
        if is_valid { Ok(()) } else { Err(violation()) }
    }

    fn check_subschemas(
        &mut self,
        schemas: impl IntoIterator<Item = (impl fmt::Display, &'a Json)>,
    ) -> Checked<'a> {
        schemas.into_iter().try_for_each(|(key, schema)| {
            self.check_subschema(schema).map_err(|error| error.inside(key))
        })
    }

    /// Compiles a pattern. Returns false if it is invalid, or if the patterns are too large.
    fn add_pattern(&mut self, pattern: &'a str) -> bool {
        if self.patterns.contains_key(pattern) {
            return true;
        }
        let available = MAX_PATTERN_BYTES - self.pattern_bytes;
        let sizes = PATTERN_SIZES.into_iter().filter(|bytes| *bytes <= available);
        let compile =
            |bytes| Some(CompiledPattern { regex: compile_pattern(pattern, bytes)?, bytes });
        let Some(compiled) = { sizes }.find_map(compile) else {
            return false;
        };
        self.pattern_bytes += compiled.bytes;
        self.patterns.insert(pattern, compiled);
        true
    }
}

/// Returns the definition that a reference names.
fn resolve<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
    let (parent, name) = reference.strip_prefix("#/")?.split_once('/')?;
    let is_definition = matches!(parent, "$defs" | "definitions") && !name.contains('/');
    let name = name.replace("~1", "/").replace("~0", "~");
    root.get(parent).filter(|_| is_definition)?.get(&name)
}

/// Compiles a pattern within a size. In JSON Schema, `\d` and `\w` match only ASCII.
fn compile_pattern(pattern: &str, bytes: usize) -> Option<Regex> {
    let mut translated = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        let escaped = if char == '\\' { chars.next() } else { None };
        match escaped {
            Some('d') => translated.push_str("[0-9]"),
            Some('D') => translated.push_str("[^0-9]"),
            Some('w') => translated.push_str("[A-Za-z0-9_]"),
            Some('W') => translated.push_str("[^A-Za-z0-9_]"),
            _ => translated.extend([char].into_iter().chain(escaped)),
        }
    }
    RegexBuilder::new(&translated).size_limit(bytes).build().ok()
}

impl<'a> SchemaValidator<'a> {
    fn apply(&mut self, schema: &'a Json, value: &'a Json) -> Checked<'a> {
        // Excessive nesting uses up all steps, so that `not` and alternatives fail too.
        self.spend(if self.depth == MAX_DEPTH { MAX_STEPS } else { 1 })?;
        if schema.as_bool() == Some(false) {
            return Err(SchemaViolation::new(None, "False schema does not allow", Some(value)));
        }
        self.depth += 1;
        let mut keywords = schema.as_map().into_iter().flatten();
        let checked = keywords.try_for_each(|(keyword, argument)| match &**keyword {
            "$ref" => {
                let reference = argument.as_str().unwrap_or_default();
                self.spend(reference.len() / BYTES_PER_STEP)?;
                let target = resolve(self.root, reference);
                target.map_or(Ok(()), |target| self.apply(target, value))
            }
            "allOf" | "anyOf" | "oneOf" => self.check_alternatives(keyword, argument, value),
            "not" => match self.apply(argument, value) {
                Ok(()) => {
                    Err(SchemaViolation::new(Some(argument), "is not allowed for", Some(value)))
                }
                Err(_) => self.spend(0),
            },
            "items" | "properties" | "required" | "additionalProperties" => {
                self.check_children(schema, keyword, argument, value)
            }
            _ => self.check_assertion(keyword, argument, value),
        });
        self.depth -= 1;
        checked
    }

    fn spend(&mut self, steps: usize) -> Checked<'a> {
        self.steps = self.steps.saturating_add(steps);
        let violation = || SchemaViolation::new(None, "the validation takes too many steps", None);
        if self.steps <= MAX_STEPS { Ok(()) } else { Err(violation()) }
    }

    fn check_alternatives(
        &mut self,
        keyword: &str,
        schemas: &'a Json,
        value: &'a Json,
    ) -> Checked<'a> {
        let mut matches = 0;
        for schema in schemas.as_list().unwrap_or_default() {
            match self.apply(schema, value) {
                Ok(()) if keyword == "anyOf" => return Ok(()),
                Ok(()) => matches += 1,
                Err(violation) if keyword == "allOf" => return Err(violation),
                Err(_) => self.spend(0)?,
            }
        }
        let reason = match (keyword, matches) {
            ("allOf", _) | ("oneOf", 1) => return Ok(()),
            (_, 0) => {
                format!("is not valid under any of the schemas listed in the '{keyword}' keyword")
            }
            _ => format!(
                "is valid under more than one of the schemas listed in the '{keyword}' keyword"
            ),
        };
        Err(SchemaViolation::new(Some(value), reason, None))
    }

    /// Checks the items of a list or the properties of a map.
    fn check_children(
        &mut self,
        schema: &'a Json,
        keyword: &str,
        argument: &'a Json,
        value: &'a Json,
    ) -> Checked<'a> {
        let declares =
            |name: &str| schema.get("properties").is_some_and(|map| map.get(name).is_some());
        let names = argument.as_list().unwrap_or_default();
        let keys = value.as_map().into_iter().flat_map(JsonMap::keys);
        let name_bytes: usize =
            names.iter().filter_map(Json::as_str).chain(keys.map(|key| &**key)).map(str::len).sum();
        let map_len = value.as_map().map_or(0, JsonMap::len);
        self.spend(names.len() + map_len + name_bytes / BYTES_PER_STEP)?;
        match (keyword, value) {
            ("items", Json::List(items)) => {
                items.iter().enumerate().try_for_each(|(index, item)| {
                    self.apply(argument, item).map_err(|error| error.inside(index))
                })
            }
            ("required", Json::Map(map)) => {
                let is_missing =
                    |name: &&Json| name.as_str().is_some_and(|name| !map.contains_key(name));
                names.iter().find(is_missing).map_or(Ok(()), |name| {
                    Err(SchemaViolation::new(Some(name), "is a required property", None))
                })
            }
            ("properties", Json::Map(map)) => map.iter().try_for_each(|(name, item)| {
                let Some(declared) = argument.get(name) else { return Ok(()) };
                self.apply(declared, item).map_err(|error| error.inside(name))
            }),
            ("additionalProperties", Json::Map(map)) => {
                let mut additional = map.iter().filter(|(name, _)| !declares(name));
                additional.try_for_each(|(name, item)| {
                    if argument.as_bool() == Some(false) {
                        let reason = format!(
                            "Additional properties are not allowed ('{name}' was unexpected)"
                        );
                        return Err(SchemaViolation::new(None, reason, None));
                    }
                    self.apply(argument, item).map_err(|error| error.inside(name))
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks a keyword that contains no schema.
    fn check_assertion(
        &mut self,
        keyword: &str,
        argument: &'a Json,
        value: &'a Json,
    ) -> Checked<'a> {
        if matches!(keyword, "const" | "enum" | "maxLength" | "minLength" | "uniqueItems") {
            self.spend(count_steps(value))?;
        }
        let (is_valid, reason) = match (keyword, value) {
            ("type", _) => (matches_type(argument, value), "is not of type"),
            ("const", _) => (argument == value, "is not equal to"),
            ("enum", _) => {
                let options = argument.as_list().unwrap_or_default();
                self.spend(options.len())?;
                (options.contains(value), "is not one of")
            }
            ("pattern", Json::Str(text)) => (self.is_match(argument, text)?, "does not match"),
            ("uniqueItems", Json::List(items)) if argument.as_bool() == Some(true) => {
                let distinct: BTreeSet<Vec<u8>> = items.iter().map(to_canonical).collect();
                (distinct.len() == items.len(), "has duplicate items, but uniqueItems is")
            }
            _ => match BOUNDS.iter().find(|(name, ..)| *name == keyword) {
                Some((_, accepts, reason)) => {
                    let order = measure(keyword, value).and_then(|n| compare_numbers(&n, argument));
                    (order.is_none_or(accepts), *reason)
                }
                None => return Ok(()),
            },
        };
        if is_valid {
            Ok(())
        } else {
            Err(SchemaViolation::new(Some(value), reason, Some(argument)))
        }
    }

    fn is_match(&mut self, pattern: &'a Json, text: &str) -> Result<bool, SchemaViolation<'a>> {
        let compiled = pattern.as_str().and_then(|pattern| self.patterns.get(pattern));
        let bytes = compiled.map_or(0, |compiled| compiled.bytes);
        self.spend(text.len() * (bytes / PATTERN_BYTES_PER_STEP))?;
        let compiled = pattern.as_str().and_then(|pattern| self.patterns.get(pattern));
        Ok(compiled.is_some_and(|compiled| compiled.regex.is_match(text)))
    }
}

/// Number of steps to compare a value.
fn count_steps(value: &Json) -> usize {
    match value {
        Json::Str(text) => text.len() / BYTES_PER_STEP,
        Json::List(items) => items.iter().map(|item| 1 + count_steps(item)).sum(),
        Json::Map(map) => map.values().map(|item| 1 + count_steps(item)).sum(),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => 0,
    }
}

fn matches_type(types: &Json, value: &Json) -> bool {
    let names = types.as_list().unwrap_or(std::slice::from_ref(types));
    names.iter().filter_map(Json::as_str).any(|name| match value {
        Json::Null => name == "null",
        Json::Bool(_) => name == "boolean",
        Json::Int(_) | Json::UInt(_) => matches!(name, "integer" | "number"),
        Json::Float(float) => name == "number" || (name == "integer" && float.fract() == 0.0),
        Json::Str(_) => name == "string",
        Json::List(_) => name == "array",
        Json::Map(_) => name == "object",
    })
}

/// Returns the number that a bound limits, if the keyword applies to the type of the value.
fn measure(keyword: &str, value: &Json) -> Option<Json> {
    match (keyword, value) {
        ("minLength" | "maxLength", Json::Str(text)) => Some(text.chars().count().into()),
        ("minItems" | "maxItems", Json::List(items)) => Some(items.len().into()),
        ("minProperties" | "maxProperties", Json::Map(map)) => Some(map.len().into()),
        (_, Json::Int(_) | Json::UInt(_) | Json::Float(_)) if keyword.ends_with("imum") => {
            Some(value.clone())
        }
        _ => None,
    }
}

/// Compares two numbers. Integers are compared exactly.
fn compare_numbers(left: &Json, right: &Json) -> Option<Ordering> {
    let integer = |number: &Json| match number {
        Json::Int(value) => Some(i128::from(*value)),
        Json::UInt(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

#[cfg(test)]
mod tests;
