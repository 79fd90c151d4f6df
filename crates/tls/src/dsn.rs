//! Connection strings, as URLs and as `key=value` pairs.
//!
//! The driver reads them, all but the keys about certificates: it knows too few of their values, so
//! these are taken out before.

use tokio_postgres::Config as Login;

use crate::TlsError;

/// What a connection string says.
#[derive(Debug)]
pub struct Dsn {
    /// Where the database is, and who one is there.
    pub login: Login,
    /// The word of `sslmode`.
    pub mode: Option<String>,
    /// What `sslrootcert` says.
    pub root: Option<String>,
}

impl Dsn {
    /// Reads a connection string; an empty one says nothing.
    pub fn read(text: &str) -> Result<Self, TlsError> {
        read(text)
    }
}

fn read(text: &str) -> Result<Dsn, TlsError> {
    let mut ours = Ours::default();
    let theirs = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        ours.taken_from_url(text)
    } else {
        ours.taken_from_pairs(text)
    };
    // The driver's words name an option at most, never its value.
    let login = theirs.parse::<Login>();
    let login = login.map_err(|error| TlsError::Address(error.to_string()))?;
    Ok(Dsn {
        login,
        mode: ours.mode,
        root: ours.root,
    })
}

#[derive(Default)]
struct Ours {
    mode: Option<String>,
    root: Option<String>,
}

impl Ours {
    /// Takes a key that is ours; tells whether it was.
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.root = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    fn taken_from_url(&mut self, url: &str) -> String {
        let Some((head, query)) = url.split_once('?') else {
            return url.to_owned();
        };
        let others: Vec<&str> = query
            .split('&')
            .filter(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                !self.take(key, &value.replace("%2F", "/").replace("%2f", "/"))
            })
            .collect();
        if others.is_empty() {
            return head.to_owned();
        }
        format!("{head}?{}", others.join("&"))
    }

    fn taken_from_pairs(&mut self, text: &str) -> String {
        let mut others = String::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let length = pair_length(rest);
            let (pair, after) = rest.split_at(length);
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.trim().trim_matches('\'');
            if !self.take(key.trim(), value) {
                others.push_str(pair);
                others.push(' ');
            }
            rest = after.trim_start();
        }
        others
    }
}

/// The length of the first `key = 'value'` of a text; a backslash takes the next character with it.
fn pair_length(text: &str) -> usize {
    let mut quoted = false;
    let mut escaped = false;
    // A value begins behind the equals sign and the blanks around it.
    let mut begun = false;
    let equals = text.find('=').map_or(text.len(), |at| at + 1);
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < equals) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted && begun => return at,
            _ => {}
        }
        begun |= !c.is_whitespace();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_about_certificates_are_taken_out() {
        let mut ours = Ours::default();
        let rest = ours.taken_from_pairs(r"host = h sslmode='verify-ca' password='a b\' c' user=u");
        assert_eq!(rest, r"host = h password='a b\' c' user=u ");
        assert_eq!(ours.mode.as_deref(), Some("verify-ca"));

        let mut ours = Ours::default();
        let rest =
            ours.taken_from_url("postgres://h/d?sslrootcert=%2Fca.pem&user=u&sslmode=require");
        assert_eq!(rest, "postgres://h/d?user=u");
        assert_eq!(ours.root.as_deref(), Some("/ca.pem"));
        assert_eq!(
            ours.taken_from_url("postgres://h/d?sslmode=disable"),
            "postgres://h/d"
        );
    }

    #[test]
    fn what_the_driver_refuses_is_refused_without_values() {
        let error = read("host=h password=geheim nonsense=1").err().unwrap();
        assert!(matches!(error, TlsError::Address(_)), "{error}");
        assert!(!error.to_string().contains("geheim"));
        assert!(read("").is_ok());
    }
}
