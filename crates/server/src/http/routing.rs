//! How routes come into the router: through [`Routes::add`] alone, which wants to know who may call them
//! and how large their bodies may be. One that does not say so does not compile.

use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, any, on};
use noetl_types::{ByteSize, ErrorCode, SecretOperation};

use super::access::{Access, Caller, Leaves, Rules, gate};
use super::acting::App;
use super::failure::Failure;
use super::internal::InternalToken;
use super::openapi::Described;
use super::part::Part;
use crate::metrics::Metrics;

/// The internal API, where it has a listener of its own: to everybody else it is not there.
const ELSEWHERE: [&str; 2] = ["/api/internal/{*rest}", "/noetl/internal/{*rest}"];

/// What a route declares about itself.
#[cfg(test)]
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) access: Access,
    pub(super) methods: MethodFilter,
    pub(super) path: String,
    pub(super) shape: super::openapi::Shape,
    pub(super) is_of_command: bool,
}

/// Routes, each with what it declares.
pub(super) struct Routes {
    router: Router<App>,
    usual_body: ByteSize,
    max_body: ByteSize,
    internal: Option<InternalToken>,
    metrics: Arc<Metrics>,
    leaves: Leaves,
    is_of_command: bool,
    part: Part,
    #[cfg(test)]
    table: Vec<Declared>,
}

impl Routes {
    pub(super) fn new(
        usual_body: ByteSize,
        internal: Option<InternalToken>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            router: Router::new(),
            usual_body,
            max_body: usual_body,
            internal,
            metrics,
            leaves: Leaves::Nothing,
            is_of_command: false,
            part: Part::All,
            #[cfg(test)]
            table: Vec::new(),
        }
    }

    /// The same for the routes of a listener, whichever are added.
    pub(super) fn only(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// The largest body of the routes that follow: this one, or the usual one where an operator allows more.
    pub(super) fn with_body(self, max_body: ByteSize) -> Self {
        let max_body = max_body.max(self.usual_body);
        Self { max_body, ..self }
    }

    pub(super) fn with_usual_body(self) -> Self {
        let max_body = self.usual_body;
        self.with_body(max_body)
    }

    /// The routes that follow leave a trail.
    pub(super) fn audited(self) -> Self {
        let leaves = Leaves::Entry;
        Self { leaves, ..self }
    }

    /// The routes that follow leave a trail of what they do to a secret.
    pub(super) fn on_secret(self, operation: SecretOperation) -> Self {
        let leaves = Leaves::SecretEntry(operation);
        Self { leaves, ..self }
    }

    pub(super) fn unaudited(self) -> Self {
        let leaves = Leaves::Nothing;
        Self { leaves, ..self }
    }

    /// The routes that follow are part of the work on a command: whoever shows its capability may
    /// call them about that command.
    pub(super) fn of_command(self) -> Self {
        Self {
            is_of_command: true,
            ..self
        }
    }

    pub(super) fn of_others(self) -> Self {
        Self {
            is_of_command: false,
            ..self
        }
    }

    /// A route. What lies under `/api/` is found under `/noetl/` too, where a gateway has it.
    pub(super) fn add<H, T>(
        self,
        access: Access,
        methods: MethodFilter,
        path: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, App> + Described<T>,
        T: 'static,
    {
        if !self.part.has(path) {
            return self;
        }
        let rules = Rules {
            access: self.part.access(access),
            max_body: self.max_body,
            internal: self.internal,
            route: path,
            metrics: Arc::clone(&self.metrics),
            leaves: self.leaves,
            is_of_command: self.is_of_command,
        };
        let route = on(methods, handler).route_layer(from_fn_with_state(rules, gate));
        let mut router = self.router;
        if let Some(rest) = path.strip_prefix("/api/") {
            router = router.route(&format!("/noetl/{rest}"), route.clone());
        }
        #[cfg(test)]
        let table = {
            let mut table = self.table;
            table.push(Declared {
                access,
                methods,
                path: path.to_owned(),
                shape: <H as Described<T>>::shape(),
                is_of_command: self.is_of_command,
            });
            table
        };
        Self {
            router: router.route(path, route),
            usual_body: self.usual_body,
            max_body: self.max_body,
            leaves: self.leaves,
            is_of_command: self.is_of_command,
            part: self.part,
            internal: self.internal,
            metrics: self.metrics,
            #[cfg(test)]
            table,
        }
    }

    /// What was declared.
    #[cfg(test)]
    pub(super) fn into_table(self) -> Vec<Declared> {
        self.table
    }

    pub(super) fn finish(self, app: App) -> Router {
        let router = match self.part {
            Part::All | Part::Internal => self.router.fallback(not_found),
            Part::Public => ELSEWHERE
                .into_iter()
                .fold(self.router, |router, path| router.route(path, any(nothing)))
                .fallback(not_found),
            // Nobody is known there, so there is nobody who may not know.
            Part::Metrics => self.router.fallback(nothing),
        };
        router
            .method_not_allowed_fallback(method_not_allowed)
            .layer(Extension(app.clone()))
            .with_state(app)
    }
}

/// Whoever is nobody does not even learn which routes there are.
async fn not_found(Extension(caller): Extension<Caller>) -> Failure {
    match caller {
        Ok(_) => nothing().await,
        Err(nobody) => nobody,
    }
}

async fn nothing() -> Failure {
    Failure::new(ErrorCode::NotFound, "there is nothing at this address")
}

async fn method_not_allowed(Extension(caller): Extension<Caller>) -> Failure {
    let failure = || {
        let text = "this address does not take this method; the header `Allow` names those it does";
        Failure::new(ErrorCode::MethodNotAllowed, text)
    };
    caller.map_or_else(|nobody| nobody, |_| failure())
}
