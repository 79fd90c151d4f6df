//! A database server: whether it can be worked with, and the walls around the log in it.

use noetl_store::{LogWall, MissingWall};

use super::{Finding, State};
use crate::config::Config;
use crate::error::Error;
use crate::roles::{self, Place, StartError};

/// Looks at it as a server does that only reads.
pub(super) fn database(place: &Place, config: &Config) -> Result<Vec<Finding>, Error> {
    let threads = roles::threads(config, 1)?;
    let found = threads.block_on(look(place));
    Ok(found.unwrap_or_else(|error| {
        let found = Finding::new("store", State::Failed, error.to_string());
        vec![match error.help() {
            Some(help) => found.fix(help),
            None => found,
        }]
    }))
}

async fn look(place: &Place) -> Result<Vec<Finding>, StartError> {
    let shown = place.shown();
    if let Some(schema) = place.schema().await?.filter(|schema| schema.is_old()) {
        let text = format!(
            "{shown} answers, and its tables are at schema {} of {}",
            schema.version, schema.newest
        );
        let fix = "the next server that starts brings them up to date, or: noetl db migrate";
        return Ok(vec![Finding::new("store", State::Note, text).fix(fix)]);
    }
    let store = place.open_to_read().await?;
    let text = format!("{shown} answers, and its tables are those of this release");
    let walls = match store.missing_walls().await {
        Ok(missing) => walls(&missing, place.has_owner()),
        Err(error) => {
            let text = format!(
                "who may change it cannot be told: {}",
                roles::causes(&error)
            );
            Finding::new("log", State::Warning, text)
        }
    };
    Ok(vec![Finding::new("store", State::Ok, text), walls])
}

/// The walls around the log, which somebody who named an owner wants to stand.
fn walls(missing: &[MissingWall], has_owner: bool) -> Finding {
    let is_open = missing.iter().any(|it| it.wall == LogWall::AppendOnly);
    let words: Vec<String> = missing.iter().map(MissingWall::to_string).collect();
    let not_raised = format!("not raised: {}", words.join(", "));
    match (is_open, has_owner) {
        (true, true) => Finding::new("log", State::Warning, not_raised).fix(
            "hand the tables to the owner of NOETL_OWNER_DSN (REASSIGN OWNED), or take those rights \
             from the server's role",
        ),
        (true, false) => Finding::new("log", State::Note, not_raised)
            .fix("let another role own the tables: NOETL_OWNER_DSN"),
        (false, _) => {
            let text = format!("the server adds to it and cannot change it; {not_raised}");
            Finding::new("log", State::Note, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_that_somebody_wanted_is_missed() {
        let open = [MissingWall {
            wall: LogWall::AppendOnly,
            why: "the role noetl owns it".into(),
        }];
        let told = walls(&open, true);
        assert_eq!(told.state, State::Warning);
        assert!(told.fix.is_some());
        let told = walls(&open, false);
        assert_eq!(told.state, State::Note);
        assert_eq!(
            told.detail,
            "not raised: a log that the server cannot change (the role noetl owns it)"
        );
        let told = walls(&[], true);
        assert!(told.detail.starts_with("the server adds to it"), "{told:?}");
    }
}
