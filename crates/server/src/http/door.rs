//! Lets requests in: finds out who makes them, how many they may make, and what is worth remembering.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use noetl_types::{ErrorCode, Text};

use super::access::{Audited, Caller, Identity};
use super::failure::Failure;
use super::identity;
use super::rates::Rates;
use super::settings::HttpSettings;
use crate::runtime::{Act, Runtime};

/// Stands before all routes.
pub(super) struct Doorman {
    runtime: Runtime,
    is_dev: bool,
    rates: Rates,
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
        }
    }

    /// Finds out who makes a request.
    ///
    /// Whoever shows a token is who the token says, and nobody where that is wrong, even on this
    /// machine.
    pub(super) async fn caller(&self, peer: SocketAddr, uri: &Uri, headers: &HeaderMap) -> Caller {
        let identity = match identity::token(headers)? {
            Some(shown) => {
                let token = self.runtime.identify(shown.reveal()).await?;
                Identity::of_token(&token)
            }
            None if self.is_dev => {
                identity::is_developer(peer, uri, headers)?;
                Identity::developer()
            }
            None => {
                let text = "this needs a token: send the header Authorization: Bearer TOKEN";
                return Err(Failure::new(ErrorCode::Unauthenticated, text));
            }
        };
        if self.rates.is_beyond(&identity) {
            let text = "these are more requests than are allowed in a second";
            return Err(Failure::new(ErrorCode::RateLimited, text));
        }
        Ok(identity)
    }

    /// What came of a request, where somebody may ask about it later.
    pub(super) fn noteworthy(&self, visit: &Visit, response: &Response) -> Option<Noteworthy> {
        let is_refusal = matches!(response.status().as_u16(), 401 | 403);
        let audited = response.extensions().get::<Audited>();
        if audited.is_none() && !is_refusal {
            return None;
        }
        let failure = response.extensions().get::<Failure>();
        let outcome: Text = failure.map_or_else(|| "ok".into(), Failure::code);
        let (actor, behalf) = match &visit.identity {
            Some(identity) => (identity.actor(), identity.behalf().clone()),
            None => ("nobody".into(), crate::Behalf::default()),
        };
        let runtime = self.runtime.on_behalf_of(behalf);
        let address = visit.peer.ip().to_canonical().to_string();
        let act = Act {
            actor,
            token_id: visit.identity.as_ref().and_then(Identity::token_id),
            what: match audited {
                Some(Audited(route)) => route.clone(),
                None => "access".into(),
            },
            target: Some(target(&visit.uri)),
            address: Some(address.into()),
            outcome,
        };
        Some(Noteworthy {
            runtime,
            act,
            is_refusal,
        })
    }
}

/// Something for the trail of a tenant.
pub(super) struct Noteworthy {
    runtime: Runtime,
    act: Act,
    is_refusal: bool,
}

impl Noteworthy {
    /// Writes it down.
    pub(super) async fn note(self) {
        // Whoever is refused can ask as often as they like, and must not fill the disk by it.
        if self.is_refusal {
            self.runtime.note_refusal(self.act);
        } else {
            self.runtime.note(self.act).await;
        }
    }
}

impl Visit {
    pub(super) fn of(peer: SocketAddr, method: &Method, uri: &Uri, caller: &Caller) -> Self {
        Self {
            peer,
            method: method.clone(),
            uri: uri.clone(),
            identity: caller.as_ref().ok().cloned(),
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
