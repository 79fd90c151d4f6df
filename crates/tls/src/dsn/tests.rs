use super::*;

#[test]
fn extracts_tls_parameters() {
    let mut keys = CertificateKeys::default();
    let rest = keys.extract_from_pairs(r"host = h sslmode='verify-ca' password='a b\' c' user=u");
    assert_eq!(rest, r"host = h password='a b\' c' user=u ");
    assert_eq!(keys.mode.as_deref(), Some("verify-ca"));

    let mut keys = CertificateKeys::default();
    let rest = keys.extract_from_url("postgres://h/d?sslrootcert=%2Fca.pem&user=u&sslmode=require");
    assert_eq!(rest, "postgres://h/d?user=u");
    assert_eq!(keys.root.as_deref(), Some("/ca.pem"));
    assert_eq!(keys.extract_from_url("postgres://h/d?sslmode=disable"), "postgres://h/d");
}

#[test]
fn parse_error_contains_no_values() {
    let error = PostgresDsn::parse("host=h password=geheim nonsense=1").err().unwrap();
    assert!(matches!(error, TlsError::Address(_)), "{error}");
    assert!(!error.to_string().contains("geheim"));
    assert!(PostgresDsn::parse("").is_ok());
}
