use proptest::prelude::*;

use super::*;
use crate::text::Text;

fn error_message<T: fmt::Debug>(result: Result<T, NameError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn validates_step_names() {
    for name in ["start", "_x", "a-b", "Load2", &"s".repeat(128)] {
        assert_eq!(StepName::new(name).unwrap(), name);
    }
    assert_eq!(error_message(StepName::new("")), "step name is empty");
    assert_eq!(
        error_message(StepName::new("s".repeat(129))),
        "step name has 129 characters, at most 128 are allowed"
    );
    assert_eq!(
        error_message(StepName::new("load data")),
        "step name `load data` has ' ' as character 5; allowed: letters, digits, `_`, `-` and \
             `/`, a letter or `_` first (ASCII)"
    );
    for name in ["2load", "-a", "/a", "naïve", "a.b", "a\0"] {
        assert!(StepName::new(name).is_err(), "{name}");
    }
}

#[test]
fn validates_names_used_in_subjects() {
    for name in ["default", "acme-7", "A_b"] {
        assert!(TenantId::new(name).is_ok(), "{name}");
        assert!(PoolName::new(name).is_ok(), "{name}");
    }
    for name in ["", "a.b", "a b", "*", ">", "-x", "_x", "ä", &"t".repeat(65)] {
        assert!(TenantId::new(name).is_err(), "{name}");
        assert!(OrganizationId::new(name).is_err(), "{name}");
        assert!(PoolName::new(name).is_err(), "{name}");
    }
}

#[test]
fn validates_playbook_paths() {
    for path in ["hello", "etl/nightly", "a/b.c/d-e", "My first playbook", "größe/τ"] {
        assert!(PlaybookPath::new(path).is_ok(), "{path}");
    }
    for path in
        ["", "/", "a/", "a//b", "a/../b", ".", " a", "a ", "a\nb", "a\\b", "a?b", "a#b", "a*"]
    {
        assert!(PlaybookPath::new(path).is_err(), "{path}");
    }
    assert_eq!(PlaybookPath::new("/etl/nightly").unwrap(), "etl/nightly");
    assert_eq!(
        error_message(PlaybookPath::new("a/../b")),
        "playbook path `a/../b` has the segment `..`; a segment must not be empty, `.` or `..`"
    );
}

#[test]
fn validates_worker_ids() {
    assert!(WorkerId::new("worker-1@host:42 (blue)").is_ok());
    assert!(WorkerId::new("a\nb").is_err());
}

#[test]
fn system_playbooks_have_a_prefix() {
    for (path, is_system) in
        [("system/projector", true), ("etl/system/x", false), ("system", false)]
    {
        assert_eq!(PlaybookPath::new(path).unwrap().is_system(), is_system, "{path}");
    }
}

#[test]
fn queue_name_contains_its_tenant() {
    let (acme, default) = (TenantId::new("acme").unwrap(), TenantId::default());
    let shared = PoolName::shared();
    assert_eq!(shared.tenant_queue(&default), shared);
    let acme_queue = shared.tenant_queue(&acme);
    assert_eq!(acme_queue, "acme.shared");
    assert_eq!(acme_queue.pool_for_tenant(&acme), Some(shared.clone()));
    assert_eq!(acme_queue.pool_for_tenant(&default), None);
    assert_eq!(shared.pool_for_tenant(&default), Some(shared.clone()));
    assert_eq!(shared.pool_for_tenant(&acme), None);
    assert_eq!(acme_queue.split_tenant(), (acme, shared.clone()));
    assert_eq!(shared.split_tenant(), (default, shared.clone()));
    assert_eq!(PoolName::parse_queue("acme.shared"), Ok(acme_queue));
    assert_eq!(PoolName::parse_queue("shared"), Ok(shared));
    assert!(PoolName::parse_queue("a.b.c").is_err());
    assert!(PoolName::new("acme.shared").is_err());
}

#[test]
fn predefined_names_are_valid() {
    assert!(TenantId::check(TenantId::default().as_str()).is_ok());
    assert!(OrganizationId::check(OrganizationId::default().as_str()).is_ok());
    for pool in [PoolName::shared(), PoolName::system()] {
        assert!(PoolName::check(pool.as_str()).is_ok());
    }
}

proptest! {
    #[test]
    fn every_name_is_valid_text(name in "\\PC{0,20}|[\\x00-\\x20a-z/]{0,6}") {
        let texts = [
            StepName::new(&*name).map(|name| Text::from(&name)).ok(),
            WorkerId::new(&*name).map(|name| Text::from(&name)).ok(),
        ];
        for text in texts.into_iter().flatten() {
            prop_assert_eq!(Text::new(&*name).unwrap(), text);
        }
    }

    #[test]
    fn path_is_valid_text_without_leading_slashes(name in "\\PC{0,20}|[\\x00-\\x20a-z/]{0,6}") {
        if let Ok(path) = PlaybookPath::new(&*name) {
            prop_assert_eq!(path.as_str(), name.trim_start_matches('/'));
            prop_assert_eq!(Text::new(path.as_str()).unwrap(), Text::from(&path));
        }
    }

    #[test]
    fn json_form_is_the_text(name in "[A-Za-z_][A-Za-z0-9_/-]{0,127}") {
        let step = StepName::new(&*name).unwrap();
        let json = serde_json::to_string(&step).unwrap();
        prop_assert_eq!(&json, &format!("\"{name}\""));
        prop_assert_eq!(serde_json::from_str::<StepName>(&json).unwrap(), step);
    }
}
