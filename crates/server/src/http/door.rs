//! Lets requests in: finds out who makes them, how many they may make, and what is worth remembering.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use noetl_types::{ErrorCode, Text};
use tracing::Span;

use super::access::{Audited, Caller, Identity};
use super::cors::{Origins, Page};
use super::failure::Failure;
use super::identity::{self, Shown};
use super::peer::Peer;
use super::rates::Rates;
use super::settings::HttpSettings;
use crate::runtime::{Act, Runtime, SecretNote};

/// Stands before all routes.
pub(super) struct Doorman {
    runtime: Runtime,
    is_dev: bool,
    rates: Rates,
    origins: Origins,
}

/// A request, as far as a trail tells of it.
pub(super) struct Visit {
    peer: SocketAddr,
    method: Method,
    uri: Uri,
    identity: Option<Identity>,
}

/// Characters of an address that a trail keeps.
const MAX_TARGET: usize = 300;

impl Doorman {
    pub(super) fn new(runtime: Runtime, settings: &HttpSettings) -> Self {
        Self {
            runtime,
            is_dev: settings.is_dev,
            rates: Rates::new(settings.rate_per_token, settings.rate_per_tenant),
            origins: settings.origins.clone(),
        }
    }

    /// What a request says about the page that it comes from.
    pub(super) fn page(&self, request: &Request<Body>) -> Page {
        self.origins.page(request)
    }

    /// Finds out who makes a request.
    ///
    /// Whoever shows a token or a capability is who it says, and nobody where that is wrong, even on
    /// this machine or with a certificate.
    pub(super) async fn caller(
        &self,
        peer: &Peer,
        (uri, headers): (&Uri, &HeaderMap),
        capability: Option<Shown>,
    ) -> Caller {
        let identity = match capability {
            Some(shown) => Identity::of_capability(self.runtime.capability(shown.reveal())?),
            None => self.known(peer, uri, headers).await?,
        };
        if self.rates.is_beyond(&identity) {
            let text = "these are more requests than are allowed in a second";
            return Err(Failure::new(ErrorCode::RateLimited, text));
        }
        Ok(identity)
    }

    async fn known(&self, peer: &Peer, uri: &Uri, headers: &HeaderMap) -> Caller {
        match (identity::token(headers)?, &peer.certified) {
            (Some(shown), _) => {
                let token = self.runtime.identify(shown.reveal()).await?;
                Ok(Identity::of_token(&token))
            }
            (None, Some(certified)) => {
                identity::is_of_own_page(uri, headers, &self.origins)?;
                Ok(certified.clone())
            }
            (None, None) if self.is_dev => {
                identity::is_developer(peer.address, uri, headers, &self.origins)?;
                Ok(Identity::developer())
            }
            (None, None) => {
                let text = "this needs a token: send the header Authorization: Bearer TOKEN";
                Err(Failure::new(ErrorCode::Unauthenticated, text))
            }
        }
    }

    /// What came of a request, where somebody may ask about it later.
    pub(super) fn noteworthy(&self, visit: &Visit, response: &Response) -> Option<Noteworthy> {
        let is_refusal = matches!(response.status().as_u16(), 401 | 403);
        let audited = response.extensions().get::<Audited>();
        if audited.is_none() && !is_refusal {
            return None;
        }
        let failure = response.extensions().get::<Failure>();
        let outcome: Text = failure.map_or_else(|| Act::OK.into(), Failure::code);
        let is_platform = audited.is_some_and(|audited| audited.is_platform);
        let (actor, behalf) = match &visit.identity {
            Some(identity) => (identity.actor(), identity.behalf().clone()),
            None if is_platform => ("platform".into(), crate::Behalf::default()),
            None => ("nobody".into(), crate::Behalf::default()),
        };
        // Who is nobody got nowhere near a secret.
        let is_known = is_platform || visit.identity.is_some();
        let secret = audited.and_then(|audited| audited.secret.as_ref());
        let runtime = self.runtime.on_behalf_of(behalf);
        let address = visit.peer.ip().to_canonical().to_string();
        let act = Act {
            actor,
            token_id: visit.identity.as_ref().and_then(Identity::token_id),
            what: match audited {
                Some(audited) => audited.route.clone(),
                None => "access".into(),
            },
            target: Some(target(&visit.uri)),
            address: Some(address.into()),
            outcome,
            secret: secret.filter(|_| is_known).map(SecretNote::told),
        };
        // Somebody who is refused a secret is worth an entry each time, as is who gets it: both are
        // known, and their requests are counted.
        let is_one_of_many = is_refusal && act.secret.is_none();
        Some(Noteworthy {
            runtime,
            act,
            is_one_of_many,
        })
    }
}

/// Something for the trail of a tenant.
pub(super) struct Noteworthy {
    runtime: Runtime,
    act: Act,
    is_one_of_many: bool,
}

impl Noteworthy {
    /// Writes it down. Where that must be done before the answer goes out, and cannot, there is
    /// another answer.
    pub(super) async fn note(self) -> Result<(), Failure> {
        // Whoever is refused can ask as often as they like, and must not fill the disk by it.
        if self.is_one_of_many {
            self.runtime.note_refusal(self.act);
            return Ok(());
        }
        Ok(self.runtime.note(self.act).await?)
    }
}

impl Visit {
    pub(super) fn of(peer: &Peer, method: &Method, uri: &Uri, caller: &Caller) -> Self {
        Self {
            peer: peer.address,
            method: method.clone(),
            uri: uri.clone(),
            identity: caller.as_ref().ok().cloned(),
        }
    }

    /// Tells a span who makes the request.
    pub(super) fn tell(&self, span: &Span) {
        if let Some(identity) = &self.identity {
            span.record("tenant", identity.behalf().tenant_id.as_str());
            span.record("actor", identity.actor().as_str());
        }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }
}

/// The path of a request. The query may hold what no trail should.
fn target(uri: &Uri) -> Text {
    let path = uri.path();
    let end = path.floor_char_boundary(MAX_TARGET);
    path.get(..end).unwrap_or_default().into()
}
