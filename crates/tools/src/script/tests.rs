use super::*;

#[test]
fn selects_script_interpreter() {
    let settings = Settings::default();
    let read = |text: &str, uri: Option<&str>| {
        let source = LoadedScript { text: text.into(), uri: uri.map(str::to_owned) };
        find_interpreter(&source, &settings).map(|argv| argv.join("|"))
    };
    for (text, uri, expected) in [
        ("echo", None, "sh"),
        ("echo", Some("/a/b"), "sh"),
        ("echo", Some("/a.d/b.sh"), "sh"),
        ("x", Some("b.bash"), "bash"),
        ("x", Some("https://h/b.py?v=1.js#x"), "python3"),
        ("#!/usr/bin/env python3\nx", Some("b.sh"), "/usr/bin/env|python3"),
        ("#! /bin/awk -f  \nx", None, "/bin/awk|-f"),
        ("#!/usr/bin/env -S a b\n", None, "/usr/bin/env|-S a b"),
    ] {
        assert_eq!(read(text, uri).unwrap(), expected, "{text} {uri:?}");
    }
    for (text, uri) in [("x", Some("a.js")), ("#!\nx", None)] {
        let error = read(text, uri).unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Schema);
        assert!(error.message.contains("no interpreter"), "{}", error.message);
    }
}
