use super::*;

fn parse_policy(rules: &str) -> EgressPolicy {
    EgressPolicy::parse(rules).unwrap()
}

fn allows(policy: &EgressPolicy, address: &str) -> bool {
    policy.check_address("host", address.parse().unwrap()).is_ok()
}

#[test]
fn allows_only_public_addresses_by_default() {
    let policy = parse_policy("");
    for address in [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.8.9.1",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1",
        "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "64:ff9b:1:7f00:0:100:808:808",
        "2002:a9fe:a9fe::1", "2002:a00:1::", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
        "::10.0.0.1", "fe80::a9fe:a9fe", "febf::1", "ff0e::1", "3fff::1", "100.127.255.255",
        "192.88.99.1", "198.19.255.255", "239.255.255.250", "2002:7f00:1::", "2001::1",
        "2001:db8::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
    ] {
        assert!(!allows(&policy, address), "{address}");
    }
    for address in [
        "1.1.1.1", "8.8.8.8", "100.128.0.1", "172.32.0.1", "192.167.0.1", "2606:4700::1111",
        "2a00:1450::1", "64:ff9b::808:808", "::ffff:8.8.8.8",
    ] {
        assert!(allows(&policy, address), "{address}");
    }
}

#[test]
fn rules_allow_exactly_what_they_name() {
    let policy = parse_policy("10.1.0.0/16, fd00::/8 192.168.7.7 db.internal:5432,cache.internal");
    assert!(allows(&policy, "10.1.255.1"));
    assert!(allows(&policy, "::ffff:10.1.0.1"));
    assert!(!allows(&policy, "10.2.0.1"));
    assert!(allows(&policy, "fd12::1"));
    assert!(!allows(&policy, "fe80::1"));
    assert!(allows(&policy, "192.168.7.7"));
    assert!(!allows(&policy, "192.168.7.8"));
    assert!(policy.names_host("DB.internal", 5432));
    assert!(!policy.names_host("db.internal", 80));
    assert!(policy.names_host("cache.internal", 1));
    assert!(!policy.names_host("other", 1));
    assert_eq!(parse_policy("10.0.0.0/8,*"), EgressPolicy::Anywhere);
    assert!(allows(&parse_policy("0.0.0.0/0"), "127.0.0.1"));
}

#[test]
fn rejects_invalid_rules() {
    for text in ["10.0.0.0/33", "x/8", "host:port", ":80", "user@host", "::/129"] {
        let error = EgressPolicy::parse(text).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn resolving_checks_every_address() {
    let denied = parse_policy("").resolve_host("localhost", 80).await.unwrap_err();
    assert!(matches!(denied, EgressError::Denied(_)), "{denied}");
    assert!(denied.to_string().contains("NOETL_EGRESS_ALLOW"));
    let denied = parse_policy("").resolve_host("[::1]", 80).await.unwrap_err();
    assert!(denied.to_string().starts_with("'::1' is not"), "{denied}");

    let allowed = parse_policy("localhost:80").resolve_host("localhost", 80).await.unwrap();
    assert!(allowed.iter().all(|address| address.port() == 80));
    assert!(parse_policy("localhost:80").resolve_host("localhost", 81).await.is_err());
}

/// A name with several addresses is rejected if any of them is not allowed, at any position. It is
/// resolved again for every connection, so an earlier result does not count.
#[test]
fn one_denied_address_denies_name() {
    let policy = parse_policy("");
    let to_addresses = |addresses: &[&str]| -> Vec<SocketAddr> {
        let address = |text: &&str| SocketAddr::new(text.parse().unwrap(), 443);
        addresses.iter().map(address).collect()
    };
    let allowed = to_addresses(&["8.8.8.8", "2606:4700::1111"]);
    assert_eq!(policy.check_addresses("host", allowed.clone()), Ok(allowed));
    for bad in ["127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1"] {
        for mixed in [["8.8.8.8", bad], [bad, "8.8.8.8"]] {
            let denied =
                policy.check_addresses("rebound.example", to_addresses(&mixed)).unwrap_err();
            assert!(denied.to_string().contains("rebound.example"), "{denied}");
        }
    }
}
