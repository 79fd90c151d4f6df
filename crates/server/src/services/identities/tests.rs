use super::*;

#[test]
fn splits_token_into_prefix_and_secret() {
    let (prefix, secret) = split_token("noetl_ab12_s_e-c").unwrap();
    assert_eq!((prefix.as_str(), secret), ("ab12", "s_e-c"));
    for invalid in ["", "noetl_", "noetl_a", "noetl__b", "noetl_a_", "x_a_b", "noetl_a b_c"] {
        assert!(split_token(invalid).is_none(), "{invalid}");
    }
}
