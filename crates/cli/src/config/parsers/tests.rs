use super::*;

#[test]
fn parses_named_server_urls() {
    let urls = parse_named_urls("a=http://h/mcp, b-2=https://h:8443/x?y=1").unwrap();
    assert_eq!(urls["a"], "http://h/mcp");
    assert_eq!(urls["b-2"], "https://h:8443/x?y=1");
    for invalid in
        ["", "a", "=http://h", "a=h", "a b=http://h", "a=http://h,a=http://i", "a=http://h,"]
    {
        assert!(parse_named_urls(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn parses_image_patterns() {
    assert_eq!(parse_images("alpine:3, r.example.com/*").unwrap(), ["alpine:3", "r.example.com/*"]);
    assert_eq!(parse_images("*").unwrap(), ["*"]);
    for invalid in ["", "a,", "a*b", "*a", "a b"] {
        assert!(parse_images(invalid).is_err(), "{invalid}");
    }
}
