use super::*;

#[test]
fn parses_names_and_rights() {
    let text = "spiffe://x/w?a=b=worker+pool:shared+pool:gpu+tenant:acme; dns:Ops.example = admin;";
    let identities = CertificateIdentities::parse_list(text).unwrap();
    let [worker, ops] = &*identities.0 else {
        panic!("{identities:?}");
    };
    assert_eq!(worker.name, CertificateName::Uri("spiffe://x/w?a=b".into()));
    assert_eq!(worker.scopes, ScopeSet::NONE.with_scope(Scope::Worker));
    assert_eq!(worker.tenant_id, "acme");
    let pools = [PoolName::shared(), PoolName::new("gpu").unwrap()];
    assert_eq!(worker.pools.as_deref(), Some(&pools[..]));
    assert_eq!(ops.name, CertificateName::Dns("ops.example".into()));
    assert_eq!(ops.scopes, ScopeSet::NONE.with_scope(Scope::Admin));
    assert_eq!((ops.tenant_id.as_str(), &ops.pools), ("default", &None));
    assert_eq!(CertificateIdentities::parse_list("").unwrap(), CertificateIdentities::default());
}

#[test]
fn rejects_invalid_entries() {
    for wrong in [
        "dns:a",
        "dns:a=",
        "dns:a=everything",
        "dns:=worker",
        "dns:*.a=worker",
        "a.example=worker",
        "=worker",
        "spiffe://a b=worker",
        "dns:a=pool:shared",
        "dns:a=worker+pool:",
        "dns:a=worker+tenant:",
        "dns:a=internal:outbox+tenant:acme",
        "dns:a=worker;dns:A=admin",
    ] {
        assert!(CertificateIdentities::parse_list(wrong).is_err(), "{wrong}");
    }
}
