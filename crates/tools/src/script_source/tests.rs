use noetl_types::json::parse;

use super::*;

fn parse_source(text: &str) -> Result<String, String> {
    let script = parse(text.as_bytes()).unwrap();
    match find_location(Config(script.as_map().unwrap())) {
        Ok(location) => Ok(format!("{location:?}")),
        Err(error) => Err(format!("{}: {}", error.kind, error.message)),
    }
}

#[test]
fn parses_source_forms() {
    for (script, expected) in [
        (r#"{"content": "x"}"#, r#"Inline("x")"#),
        (r#"{"type": "inline", "content": "x", "uri": "u"}"#, r#"Inline("x")"#),
        (r#"{"source": {"type": "inline", "code": "x"}}"#, r#"Inline("x")"#),
        (r#"{"uri": "/a.py"}"#, r#"File("/a.py")"#),
        (r#"{"uri": "file:///a.py"}"#, r#"File("file:///a.py")"#),
        (r#"{"type": "local", "uri": "a.sh"}"#, r#"File("a.sh")"#),
        (r#"{"source": {"type": "file", "path": "/a"}}"#, r#"File("/a")"#),
        (r#"{"source": "file", "uri": "/a"}"#, r#"File("/a")"#),
        (r#"{"uri": "https://h/a"}"#, r#"Web("https://h/a")"#),
        (r#"{"source": {"type": "http", "endpoint": "http://h"}}"#, r#"Web("http://h")"#),
        (
            r#"{"uri": "a.py", "source": {"type": "http", "endpoint": "http://h/a.py"}}"#,
            r#"Web("http://h/a.py")"#,
        ),
        (r#"{"uri": "/a", "source": {"type": "file", "path": "/b"}}"#, r#"File("/b")"#),
        (r#"{"uri": "/a", "source": {"type": "file"}}"#, r#"File("/a")"#),
    ] {
        assert_eq!(parse_source(script).as_deref(), Ok(expected), "{script}");
    }
    for (script, part) in [
        (r#"{"type": "inline"}"#, "schema: 'script.content' is missing"),
        (r#"{"type": "file"}"#, "schema: 'script.uri' is missing"),
        ("{}", "schema: 'script.uri' is missing"),
        (r#"{"content": 1}"#, "schema: 'script.content' must be a text"),
        (r#"{"source": 1}"#, "schema: 'script.source' must be a map"),
        (r#"{"type": "gcs", "uri": "gs://b/k"}"#, "unsupported: scripts of type 'gcs'"),
        (r#"{"uri": "s3://b/k"}"#, "unsupported: the script 's3://b/k'"),
    ] {
        let error = parse_source(script).unwrap_err();
        assert!(error.starts_with(part), "{error}");
    }
}
