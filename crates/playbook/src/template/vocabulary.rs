//! The vocabulary of the language: all filters, tests, functions and methods, with their
//! parameters.
//!
//! A name that is not listed here does not exist. The `eval` module implements them.

use super::template_error::VocabularyKind;
use crate::diag::nearest_name;

/// The parameters of a filter, test, function or method, in order. The first `required` of them
/// must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallSignature {
    pub(super) required: usize,
    pub(super) params: &'static [&'static str],
}

macro_rules! vocabulary {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $variant:ident $($text:literal)|+ ($required:literal $(, $param:literal)*); )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name { $( $variant, )+ }

        impl $name {
            /// All spellings.
            const NAMES: &'static [&'static str] = &[ $( $($text,)+ )+ ];
            /// Finds an entry by one of its spellings.
            pub(super) fn parse(name: &str) -> Option<Self> {
                match name {
                    $( $($text)|+ => Some(Self::$variant), )+
                    _ => None,
                }
            }

            /// Parameters besides the value it is applied to.
            pub(super) fn signature(self) -> CallSignature {
                match self {
                    $( Self::$variant => CallSignature {
                        required: $required,
                        params: &[ $($param,)* ],
                    }, )+
                }
            }
        }
    };
}

vocabulary! {
    /// `value | filter(…)`
    Filter {
        Default "default" | "d" (0, "default_value", "boolean");
        Int "int" (0, "default", "base");
        Float "float" (0, "default");
        String "string" (0);
        Bool "bool" (0);
        Lower "lower" (0);
        Upper "upper" (0);
        Title "title" (0);
        Trim "trim" (0, "chars");
        Replace "replace" (2, "old", "new", "count");
        Split "split" (0, "sep", "maxsplit");
        Join "join" (0, "d", "attribute");
        First "first" (0);
        Last "last" (0);
        Length "length" | "len" | "count" (0);
        Keys "keys" (0);
        Values "values" (0);
        Items "items" (0);
        Get "get" (1, "key", "default");
        ToJson "tojson" (0, "indent");
        FromJson "fromjson" (0);
        B64Encode "b64encode" (0);
        B64Decode "b64decode" (0);
        UrlEncode "urlencode" (0);
        Sha256 "sha256" (0);
        Sort "sort" (0, "reverse", "case_sensitive", "attribute");
        Unique "unique" (0, "case_sensitive", "attribute");
        Reverse "reverse" (0);
        GroupBy "groupby" (1, "attribute", "default", "case_sensitive");
        Sum "sum" (0, "attribute", "start");
        Min "min" (0, "case_sensitive", "attribute");
        Max "max" (0, "case_sensitive", "attribute");
        Abs "abs" (0);
        Round "round" (0, "precision", "method");
        List "list" (0);
        Safe "safe" (0);
    }
}

/// Filters that apply another filter or a test to every item. Their arguments depend on that filter
/// or test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemFilterName {
    Map,
    Select,
    Reject,
    SelectAttr,
    RejectAttr,
}

impl ItemFilterName {
    const NAMES: [&str; 5] = ["map", "select", "reject", "selectattr", "rejectattr"];

    /// Finds a filter by its name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "map" => Some(Self::Map),
            "select" => Some(Self::Select),
            "reject" => Some(Self::Reject),
            "selectattr" => Some(Self::SelectAttr),
            "rejectattr" => Some(Self::RejectAttr),
            _ => None,
        }
    }
}

vocabulary! {
    /// `value is test(…)`
    Test {
        Defined "defined" (0);
        Undefined "undefined" (0);
        None "none" (0);
        True "true" (0);
        False "false" (0);
        Boolean "boolean" (0);
        Number "number" (0);
        Integer "integer" (0);
        Float "float" (0);
        String "string" (0);
        Mapping "mapping" (0);
        Sequence "sequence" (0);
        Iterable "iterable" (0);
        Odd "odd" (0);
        Even "even" (0);
        In "in" (1, "seq");
        Eq "eq" (1, "other");
        Ne "ne" (1, "other");
        Lt "lt" (1, "other");
        Le "le" (1, "other");
        Gt "gt" (1, "other");
        Ge "ge" (1, "other");
        StartingWith "startingwith" (1, "prefix");
        EndingWith "endingwith" (1, "suffix");
    }
}

vocabulary! {
    /// `function(…)`
    Function {
        Now "now" (0);
        Range "range" (1, "start", "stop", "step");
        Dict "dict" (0);
        Namespace "namespace" (0);
        Random "random" (0);
        Uuid "uuid" (0);
    }
}

vocabulary! {
    /// `value.method(…)`
    Method {
        Get "get" (1, "key", "default");
        Keys "keys" (0);
        Values "values" (0);
        Items "items" (0);
        Lower "lower" (0);
        Upper "upper" (0);
        Strip "strip" (0, "chars");
        Split "split" (0, "sep", "maxsplit");
        StartsWith "startswith" (1, "prefix");
        EndsWith "endswith" (1, "suffix");
        Join "join" (1, "iterable");
        Replace "replace" (2, "old", "new", "count");
        IsoFormat "isoformat" (0);
    }
}

/// The known name that is most similar to an unknown one.
pub(super) fn suggest_name(vocabulary: VocabularyKind, name: &str) -> Option<&'static str> {
    match vocabulary {
        VocabularyKind::Filter => {
            nearest_name(name, Filter::NAMES.iter().copied().chain(ItemFilterName::NAMES))
        }
        VocabularyKind::Test => nearest_name(name, Test::NAMES.iter().copied()),
        VocabularyKind::Function => nearest_name(name, Function::NAMES.iter().copied()),
        VocabularyKind::Method => nearest_name(name, Method::NAMES.iter().copied()),
    }
}
