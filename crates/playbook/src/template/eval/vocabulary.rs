//! The vocabulary of the language: all filters, tests, functions and methods, each with its names,
//! parameters, result type and implementation.
//!
//! A name that is not listed here does not exist.

use std::rc::Rc;

use noetl_types::Json;

use super::call::{self, CallFn, FunctionFn, TestFn};
use super::context::Value;
use super::{collection, text};
use crate::diag::nearest_name;
use crate::template::error::VocabularyKind;
use crate::template::number::as_integer;
use crate::template::program::CompareOp;

/// An entry of the vocabulary.
#[derive(Debug)]
pub(in crate::template) struct Callable<F: 'static> {
    /// The name, followed by its aliases.
    names: &'static [&'static str],
    pub(in crate::template) signature: CallSignature,
    /// Type of the result, if it is the same for all data.
    pub(in crate::template) result: Option<&'static str>,
    pub(in crate::template) apply: F,
}

/// The parameters besides the value that is filtered or tested, in order. The first `required` of
/// them must be given.
#[derive(Debug, Clone, Copy)]
pub(in crate::template) struct CallSignature {
    pub(in crate::template) required: usize,
    pub(in crate::template) params: &'static [&'static str],
}

impl<F> Callable<F> {
    pub(in crate::template) fn name(&self) -> &'static str {
        self.names[0]
    }
}

/// `value | filter(…)`
pub(in crate::template) type Filter = Callable<CallFn>;
/// `value.method(…)`
pub(in crate::template) type Method = Callable<CallFn>;
/// `value is test(…)`
pub(in crate::template) type Test = Callable<TestFn>;
/// `function(…)`
pub(in crate::template) type Function = Callable<FunctionFn>;

/// Finds an entry by one of its names.
pub(in crate::template) fn find<F>(
    vocabulary: &'static [Callable<F>],
    name: &str,
) -> Option<&'static Callable<F>> {
    vocabulary.iter().find(|entry| entry.names.contains(&name))
}

/// The known name that is most similar to an unknown one.
pub(in crate::template) fn suggest_name(kind: VocabularyKind, name: &str) -> Option<&'static str> {
    fn names<F>(vocabulary: &'static [Callable<F>]) -> impl Iterator<Item = &'static str> {
        vocabulary.iter().flat_map(|entry| entry.names).copied()
    }
    match kind {
        VocabularyKind::Filter => nearest_name(name, names(FILTERS).chain(ITEM_FILTERS)),
        VocabularyKind::Test => nearest_name(name, names(TESTS)),
        VocabularyKind::Function => nearest_name(name, names(FUNCTIONS)),
        VocabularyKind::Method => nearest_name(name, names(METHODS)),
    }
}

const ANY: Option<&str> = None;
const TEXT: Option<&str> = Some("text");
const LIST: Option<&str> = Some("list");
const MAP: Option<&str> = Some("map");
const NUMBER: Option<&str> = Some("number");
const BOOL: Option<&str> = Some("bool");

/// Filters that apply another filter or a test to every item. Their arguments depend on that filter
/// or test, so the parser binds them.
pub(in crate::template) const ITEM_FILTERS: [&str; 5] =
    ["map", "select", "reject", "selectattr", "rejectattr"];

macro_rules! entry {
    ($($name:literal)|+ ($required:literal $(, $param:literal)*) -> $result:ident, $apply:expr) => {
        Callable {
            names: &[$($name),+],
            signature: CallSignature { required: $required, params: &[$($param),*] },
            result: $result,
            apply: $apply,
        }
    };
}

/// All filters besides [`ITEM_FILTERS`].
pub(in crate::template) static FILTERS: &[Filter] = &[
    entry!("default" | "d" (0, "default_value", "boolean") -> ANY, CallFn::Value(call::default)),
    entry!("int" (0, "default", "base") -> NUMBER, CallFn::Json(call::int)),
    entry!("float" (0, "default") -> NUMBER, CallFn::Json(call::float)),
    entry!("string" (0) -> TEXT, CallFn::Json(call::string)),
    entry!("bool" (0) -> BOOL, CallFn::Json(call::bool)),
    entry!("lower" (0) -> TEXT, CallFn::Text(text::lower)),
    entry!("upper" (0) -> TEXT, CallFn::Text(text::upper)),
    entry!("title" (0) -> TEXT, CallFn::Text(text::title)),
    entry!("trim" (0, "chars") -> TEXT, CallFn::Text(text::trim)),
    entry!("replace" (2, "old", "new", "count") -> TEXT, CallFn::Text(text::replace)),
    entry!("split" (0, "sep", "maxsplit") -> LIST, CallFn::Text(text::split)),
    entry!("join" (0, "d", "attribute") -> TEXT, CallFn::Json(collection::join)),
    entry!("first" (0) -> ANY, CallFn::Value(collection::first)),
    entry!("last" (0) -> ANY, CallFn::Value(collection::last)),
    entry!("length" | "len" | "count" (0) -> NUMBER, CallFn::Json(collection::length)),
    entry!("keys" (0) -> LIST, CallFn::Json(collection::keys)),
    entry!("values" (0) -> LIST, CallFn::Json(collection::values)),
    entry!("items" (0) -> LIST, CallFn::Json(collection::items)),
    entry!("get" (1, "key", "default") -> ANY, CallFn::Value(call::get)),
    entry!("tojson" (0, "indent") -> TEXT, CallFn::Json(text::tojson)),
    entry!("fromjson" (0) -> ANY, CallFn::Json(text::fromjson)),
    entry!("b64encode" (0) -> TEXT, CallFn::Text(text::b64encode)),
    entry!("b64decode" (0) -> TEXT, CallFn::Text(text::b64decode)),
    entry!("urlencode" (0) -> TEXT, CallFn::Json(text::urlencode)),
    entry!("sha256" (0) -> TEXT, CallFn::Text(text::sha256)),
    entry!(
        "sort" (0, "reverse", "case_sensitive", "attribute") -> LIST,
        CallFn::Json(collection::sort)
    ),
    entry!("unique" (0, "case_sensitive", "attribute") -> LIST, CallFn::Json(collection::unique)),
    entry!("reverse" (0) -> ANY, CallFn::Json(collection::reverse)),
    entry!(
        "groupby" (1, "attribute", "default", "case_sensitive") -> LIST,
        CallFn::Json(collection::groupby)
    ),
    entry!("sum" (0, "attribute", "start") -> ANY, CallFn::Json(collection::sum)),
    entry!("min" (0, "case_sensitive", "attribute") -> ANY, CallFn::Value(collection::min)),
    entry!("max" (0, "case_sensitive", "attribute") -> ANY, CallFn::Value(collection::max)),
    entry!("abs" (0) -> NUMBER, CallFn::Json(call::abs)),
    entry!("round" (0, "precision", "method") -> NUMBER, CallFn::Json(call::round)),
    entry!("list" (0) -> LIST, CallFn::Json(collection::list)),
    entry!("safe" (0) -> ANY, CallFn::Json(|_, value| Ok(value.clone()))),
];

/// All tests.
pub(in crate::template) static TESTS: &[Test] = &[
    entry!("defined" (0) -> BOOL, TestFn::Defined(true)),
    entry!("undefined" (0) -> BOOL, TestFn::Defined(false)),
    entry!("none" (0) -> BOOL, TestFn::Json(Json::is_null)),
    entry!("true" (0) -> BOOL, TestFn::Json(|value| *value == Json::Bool(true))),
    entry!("false" (0) -> BOOL, TestFn::Json(|value| *value == Json::Bool(false))),
    entry!("boolean" (0) -> BOOL, TestFn::Json(|value| matches!(value, Json::Bool(_)))),
    entry!("number" (0) -> BOOL, TestFn::Json(|value| value.as_f64().is_some())),
    entry!("integer" (0) -> BOOL, TestFn::Json(|value| as_integer(value).is_some())),
    entry!("float" (0) -> BOOL, TestFn::Json(|value| matches!(value, Json::Float(_)))),
    entry!("string" (0) -> BOOL, TestFn::Json(|value| matches!(value, Json::Str(_)))),
    entry!("mapping" (0) -> BOOL, TestFn::Json(|value| matches!(value, Json::Map(_)))),
    entry!("sequence" (0) -> BOOL, TestFn::Json(|value| matches!(value, Json::List(_)))),
    entry!("iterable" (0) -> BOOL, TestFn::Json(is_iterable)),
    entry!("odd" (0) -> BOOL, TestFn::Json(|value| as_integer(value).is_some_and(|n| n % 2 != 0))),
    entry!("even" (0) -> BOOL, TestFn::Json(|value| as_integer(value).is_some_and(|n| n % 2 == 0))),
    entry!("in" (1, "seq") -> BOOL, TestFn::Compare(CompareOp::In)),
    entry!("eq" (1, "other") -> BOOL, TestFn::Compare(CompareOp::Eq)),
    entry!("ne" (1, "other") -> BOOL, TestFn::Compare(CompareOp::Ne)),
    entry!("lt" (1, "other") -> BOOL, TestFn::Compare(CompareOp::Lt)),
    entry!("le" (1, "other") -> BOOL, TestFn::Compare(CompareOp::Le)),
    entry!("gt" (1, "other") -> BOOL, TestFn::Compare(CompareOp::Gt)),
    entry!("ge" (1, "other") -> BOOL, TestFn::Compare(CompareOp::Ge)),
    entry!(
        "startingwith" (1, "prefix") -> BOOL,
        TestFn::Texts(|text, part| text.starts_with(part))
    ),
    entry!("endingwith" (1, "suffix") -> BOOL, TestFn::Texts(|text, part| text.ends_with(part))),
];

fn is_iterable(value: &Json) -> bool {
    matches!(value, Json::Str(_) | Json::List(_) | Json::Map(_))
}

/// All functions.
pub(in crate::template) static FUNCTIONS: &[Function] = &[
    entry!("now" (0) -> TEXT, FunctionFn::Input(|inputs| inputs.now().map(|now| Ok(now.into())))),
    entry!("range" (1, "start", "stop", "step") -> LIST, FunctionFn::Positional(call::range)),
    entry!("dict" (0) -> MAP, FunctionFn::Entries(|map| Value::Json(map.into()))),
    entry!(
        "namespace" (0) -> ANY,
        FunctionFn::Entries(|map| Value::Namespace(Rc::new(map.into())))
    ),
    entry!(
        "random" (0) -> NUMBER,
        FunctionFn::StartInput(|inputs| inputs.next_random().map(Json::from_f64))
    ),
    entry!("uuid" (0) -> TEXT, FunctionFn::StartInput(|inputs| inputs.next_uuid().map(Json::text))),
];

/// All methods.
pub(in crate::template) static METHODS: &[Method] = &[
    entry!("get" (1, "key", "default") -> ANY, CallFn::Value(call::get)),
    entry!("keys" (0) -> LIST, CallFn::Json(collection::keys)),
    entry!("values" (0) -> LIST, CallFn::Json(collection::values)),
    entry!("items" (0) -> LIST, CallFn::Json(collection::items)),
    entry!("lower" (0) -> TEXT, CallFn::Text(text::lower)),
    entry!("upper" (0) -> TEXT, CallFn::Text(text::upper)),
    entry!("strip" (0, "chars") -> TEXT, CallFn::Text(text::trim)),
    entry!("split" (0, "sep", "maxsplit") -> LIST, CallFn::Text(text::split)),
    entry!("startswith" (1, "prefix") -> BOOL, CallFn::Text(text::starts_with)),
    entry!("endswith" (1, "suffix") -> BOOL, CallFn::Text(text::ends_with)),
    entry!("join" (1, "iterable") -> TEXT, CallFn::Text(text::join_with)),
    entry!("replace" (2, "old", "new", "count") -> TEXT, CallFn::Text(text::replace)),
    entry!("isoformat" (0) -> TEXT, CallFn::Value(call::isoformat)),
];
