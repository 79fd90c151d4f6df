//! The list of diagnostic codes. Codes are stable: they are never reused or renumbered.

use std::fmt;

use crate::string_enum;

string_enum! {
    /// Severity of a diagnostic.
    pub enum Severity {
        /// The document is rejected.
        Error = "error",
        /// The document is accepted, unless `--strict` is given.
        Warning = "warning",
        /// Informational.
        Note = "note",
    }
}

macro_rules! codes {
    ($($code:ident $severity:ident $title:literal;)+) => {
        /// Code of a diagnostic.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $code,)+
        }

        impl Code {
            /// All codes, in order.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            /// Returns the code as text, such as `NP201`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$code => stringify!($code),)+ }
            }

            /// Returns the severity.
            pub fn severity(self) -> Severity {
                match self { $(Self::$code => Severity::$severity,)+ }
            }

            /// Returns a short description.
            pub fn title(self) -> &'static str {
                match self { $(Self::$code => $title,)+ }
            }

            /// Returns the documentation page, in Markdown.
            pub fn page(self) -> &'static str {
                match self {
                    $(Self::$code => {
                        include_str!(concat!("../../../../docs/errors/", stringify!($code), ".md"))
                    })+
                }
            }
        }
    };
}

codes! {
    NP001 Error "invalid YAML";
    NP002 Error "duplicate key";
    NP003 Error "apiVersion is not valid for the kind";
    NP004 Error "kind is missing";
    NP005 Error "required key is missing";
    NP006 Error "value of the wrong type";
    NP007 Error "document exceeds a limit";
    NP008 Error "more than one document in the file";
    NP009 Warning "kind is stored unchecked";
    NP010 Warning "unknown key";
    NP011 Error "value is not one of the allowed values";
    NP012 Error "not a duration or size";
    NP013 Error "not a valid name";
    NP014 Error "workflow has no steps";
    NP015 Error "root vars are not supported";
    NP016 Warning "deprecated form";
    NP018 Warning "key has no effect";
    NP019 Warning "retry was read as a policy rule";
    NP020 Note "extension that is not portable";
    NP021 Error "kind is not run by this release";
    NP022 Error "misspelled key";
    NP101 Error "step is defined twice";
    NP102 Error "step has no tool";
    NP103 Error "key is not supported on a step";
    NP105 Error "entry or final step does not exist";
    NP106 Warning "step can never be reached";
    NP107 Warning "step hides another name";
    NP108 Error "final step is the target of an arc";
    NP201 Error "arc to a step that does not exist";
    NP202 Warning "arc is never taken";
    NP203 Warning "condition may also catch a failure";
    NP204 Warning "cycle has no exit";
    NP301 Error "loop needs exactly one of in and cursor";
    NP302 Error "loop needs an iterator";
    NP303 Error "mode cursor needs cursor.claim";
    NP304 Error "loop concurrency is below 1";
    NP305 Error "tool kind cannot run inside a cursor loop";
    NP307 Warning "parallel iterations write the same variable";
    NP308 Error "loop over a constant that is not iterable";
    NP401 Error "unknown tool kind";
    NP402 Error "not part of this build";
    NP404 Error "tool lacks a required key";
    NP405 Error "workbook task does not exist";
    NP406 Error "pipeline is empty";
    NP407 Error "pipeline item is malformed";
    NP408 Error "label is used twice";
    NP410 Error "policy has no rules";
    NP411 Error "rule has neither when nor else";
    NP412 Error "unknown action";
    NP413 Error "jump needs a target";
    NP414 Error "jump to an unknown label";
    NP415 Warning "rule after else is never reached";
    NP416 Error "key is not supported";
    NP417 Error "keys are mutually exclusive";
    NP418 Error "params do not match the statements";
    NP419 Warning "python code does not parse";
    NP420 Warning "value interpolated into SQL quotes";
    NP421 Error "unsupported JSON Schema";
    NP501 Error "invalid template";
    NP502 Error "unknown filter, test or function";
    NP503 Warning "unknown name";
    NP504 Warning "step cannot have run before";
    NP505 Error "statement is not allowed";
    NP506 Error "function may only be used in workload";
    NP507 Warning "condition is not a single expression";
    NP508 Warning "comparison of different types";
    NP509 Warning "event name that never occurs";
    NP511 Error "set cannot write this name";
    NP512 Warning "literal key that looks like a scope";
    NP601 Warning "secret in plain text";
    NP602 Error "keychain cannot be read on the server";
    NP603 Error "keychain entry is not declared";
    NP604 Error "keychain entry is declared twice";
    NP605 Warning "credential is not registered";
    NP704 Error "number is out of range";
    NP705 Error "settings cannot be combined";
    NP706 Warning "playbook is not in the catalog";
}

impl Code {
    /// Finds a code by its text, ignoring case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
