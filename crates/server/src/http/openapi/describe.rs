//! What a handler's own types say about its route: the body that it reads, and what it answers.

/// A handler that can be described. In tests this asks for the schema of every body and answer, so a
/// type without one does not get into a route; the product asks for nothing.
#[cfg(not(test))]
pub(in crate::http) trait Described<T> {}

#[cfg(not(test))]
impl<H, T> Described<T> for H {}

#[cfg(test)]
pub(in crate::http) use made::{Described, Made, Shape};

#[cfg(test)]
mod made {
    use axum::Extension;
    use axum::extract::{Path, State};
    use axum::http::{HeaderMap, Uri};
    use axum::response::Response;
    use schemars::{JsonSchema, Schema, SchemaGenerator};

    use crate::http::access::Caller;
    use crate::http::acting::{App, For, ForAll, ForCopies};
    use crate::http::answer::{Answer, AsOf};
    use crate::http::body::{JsonBody, JsonBodyOrDefault, JsonListBody};
    use crate::http::failure::Failure;
    use crate::http::once::Once;
    use crate::http::params::{
        CatalogOf, EventOf, ExecutionOf, KeyOf, KeychainOf, Params, TextOf, TraceOf, VarOf,
    };

    /// Makes the schema of a type.
    pub(in crate::http) type Made = fn(&mut SchemaGenerator) -> Schema;

    /// What the types of a handler say.
    #[derive(Debug, Clone, Copy, Default)]
    pub(in crate::http) struct Shape {
        /// The body, and whether there must be one.
        pub(in crate::http) body: Option<(Made, bool)>,
        /// The answer, where its type tells it.
        pub(in crate::http) answer: Option<Made>,
        /// Whether it answers with problems alone.
        pub(in crate::http) only_fails: bool,
        /// Whether it reads what stands behind the question mark.
        pub(in crate::http) has_query: bool,
    }

    /// A handler that can be described.
    pub(in crate::http) trait Described<T> {
        fn shape() -> Shape;
    }

    /// Something that a handler reads of a request.
    pub(in crate::http) trait Read {
        fn note(_: &mut Shape) {}
    }

    /// Something that a handler answers with.
    pub(in crate::http) trait Answers {
        fn note(_: &mut Shape) {}
    }

    impl Read for For {}
    impl Read for ForCopies {}
    impl Read for ForAll {}
    impl Read for State<App> {}
    impl Read for Extension<Caller> {}
    impl Read for HeaderMap {}
    impl Read for Uri {}
    impl Read for ExecutionOf {}
    impl Read for EventOf {}
    impl Read for TextOf {}
    impl Read for VarOf {}
    impl Read for CatalogOf {}
    impl Read for KeychainOf {}
    impl Read for KeyOf {}
    impl Read for TraceOf {}
    impl<T> Read for Path<T> {}

    impl Read for Params {
        fn note(shape: &mut Shape) {
            shape.has_query = true;
        }
    }

    impl<T: JsonSchema> Read for JsonBody<T> {
        fn note(shape: &mut Shape) {
            shape.body = Some((SchemaGenerator::subschema_for::<T>, true));
        }
    }

    impl<T: JsonSchema> Read for JsonBodyOrDefault<T> {
        fn note(shape: &mut Shape) {
            shape.body = Some((SchemaGenerator::subschema_for::<T>, false));
        }
    }

    impl<T: JsonSchema> Read for JsonListBody<T> {
        fn note(shape: &mut Shape) {
            shape.body = Some((SchemaGenerator::subschema_for::<Vec<T>>, true));
        }
    }

    impl Answers for Response {}

    impl Answers for Failure {
        fn note(shape: &mut Shape) {
            shape.only_fails = true;
        }
    }

    impl<T: JsonSchema> Answers for Answer<T> {
        fn note(shape: &mut Shape) {
            shape.answer = Some(SchemaGenerator::subschema_for::<T>);
        }
    }

    impl<T: JsonSchema> Answers for AsOf<T> {
        fn note(shape: &mut Shape) {
            Answer::<T>::note(shape);
        }
    }

    impl<T: JsonSchema> Answers for Once<T> {
        fn note(shape: &mut Shape) {
            Answer::<T>::note(shape);
        }
    }

    impl<T: Answers> Answers for Result<T, Failure> {
        fn note(shape: &mut Shape) {
            T::note(shape);
        }
    }

    impl<F, Fut> Described<((),)> for F
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output: Answers>,
    {
        fn shape() -> Shape {
            let mut shape = Shape::default();
            <Fut::Output as Answers>::note(&mut shape);
            shape
        }
    }

    /// The first of the types is the router's own mark.
    macro_rules! described {
        ($($read:ident),+) => {
            impl<Mark, F, Fut, $($read),+> Described<(Mark, $($read,)+)> for F
            where
                F: FnOnce($($read),+) -> Fut,
                Fut: Future<Output: Answers>,
                $($read: Read,)+
            {
                fn shape() -> Shape {
                    let mut shape = Shape::default();
                    $($read::note(&mut shape);)+
                    <Fut::Output as Answers>::note(&mut shape);
                    shape
                }
            }
        };
    }

    described!(A);
    described!(A, B);
    described!(A, B, C);
    described!(A, B, C, D);
    described!(A, B, C, D, E);
}
