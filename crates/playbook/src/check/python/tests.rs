use super::find_syntax_error;

#[test]
fn accepts_valid_code() {
    for code in [
        "",
        "result = 1",
        "def main(a, b=2):\n    return {'a': a}\n",
        "x = [\n  1,\n 2,\n]\nif x: y = 1\nelse:\n  y = 2\n",
        "s = '''a\n  b: (\n'''\nprint(s) # it's a comment (\n",
        "a = 1 + \\\n    2\nf = lambda x: x\nd = {\n  'k': [1,\n 2]}\n",
        "async def main():\n    async with x as y:\n        await y\n",
        "match x:\n    case 1:\n        pass\n",
        "x = f\"{a['b']}\"\nreturn x\n",
        "class A:\n    \"\"\"doc\"\"\"\n\n    def f(self): return 1\n",
        "if_ = 3\nelse_ = 4\nformat = 1\n",
    ] {
        assert_eq!(find_syntax_error(code), None, "{code}");
    }
}

#[test]
fn reports_syntax_error_reason() {
    for (code, reason) in [
        ("def f(:\n  pass", "'(' was never closed"),
        ("x = [1, 2)", "')' does not match '['"),
        ("x = 1)", "')' has no opening bracket"),
        ("s = 'abc", "unterminated string"),
        ("s = \"\"\"abc", "unterminated string"),
        ("def f()\n  return 1", "'def' is missing its ':'"),
        ("if x:\ny = 1", "expected an indented block"),
        ("x = 1\n  y = 2", "unexpected indentation"),
        ("if x:\n    y = 1\n  z = 2", "indentation does not match any open block"),
        ("for i in x:", "expected an indented block"),
        ("s = 'a\\", "unterminated string"),
    ] {
        assert_eq!(
            find_syntax_error(code).map(|error| error.reason).as_deref(),
            Some(reason),
            "{code}"
        );
    }
}
