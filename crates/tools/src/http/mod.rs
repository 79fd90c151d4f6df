//! The kind `http`: one request, with redirects, and its answer as data.

mod auth;
mod exchange;
mod request;
mod response;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use reqwest::Client;
use reqwest::redirect::Policy;
use tokio::time::Instant;

use self::exchange::Exchange;
use self::request::Request;
use crate::call::{Call, Outcome};
use crate::egress::{CheckedNames, EgressPolicy};
use crate::settings::Settings;
use crate::tool::{Scope, Tool};

/// Sends HTTP requests.
#[derive(Debug)]
pub(crate) struct Http {
    egress: Arc<EgressPolicy>,
    payload_cap: ByteSize,
    clients: Mutex<Option<Clients>>,
}

/// The clients, made with the first call since reading the machine's certificates takes a while.
#[derive(Debug, Clone)]
struct Clients {
    /// Connects to addresses that the policy lets through.
    checked: Client,
    /// Connects to hosts that a rule names, whatever their address.
    named: Client,
}

impl Http {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            egress: Arc::new(settings.egress.clone()),
            payload_cap: settings.payload_cap,
            clients: Mutex::default(),
        }
    }

    fn clients(&self) -> Result<Clients, TaskError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clients) = &*clients {
            return Ok(clients.clone());
        }
        // Another part of the process may have installed it already, which is as good.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let build = |policy: Arc<EgressPolicy>| {
            Client::builder()
                .redirect(Policy::none())
                .no_proxy()
                .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
                .dns_resolver(Arc::new(CheckedNames(policy)))
                .build()
                .map_err(|error| {
                    let message = format!("the HTTP client cannot be set up: {error}");
                    TaskError::new(TaskErrorKind::Unknown, message)
                })
        };
        let made = Clients {
            checked: build(Arc::clone(&self.egress))?,
            named: build(Arc::new(EgressPolicy::Anywhere))?,
        };
        *clients = Some(made.clone());
        Ok(made)
    }

    async fn work(&self, call: &Call) -> Result<Outcome, TaskError> {
        let request = Request::read(call)?;
        let clients = self.clients()?;
        let exchange = Exchange {
            egress: &self.egress,
            clients: &clients,
            payload_cap: self.payload_cap,
        };
        let started = Instant::now();
        let answer = exchange.run(&request).await?;
        Ok(answer.outcome(request.response_type, started.elapsed()))
    }
}

#[async_trait]
impl Tool for Http {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}
