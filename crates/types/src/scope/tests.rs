use super::*;

#[test]
fn set_contains_inserted_scopes() {
    for scope in Scope::ALL {
        let alone = ScopeSet::NONE.with_scope(*scope);
        assert_eq!(alone.iter().collect::<Vec<_>>(), [*scope]);
        assert!(alone.allows(*scope));
        assert!(!ScopeSet::NONE.allows(*scope));
    }
    let all: ScopeSet = Scope::ALL.iter().copied().collect();
    assert_eq!(all.iter().count(), Scope::ALL.len());
}

#[test]
fn admin_allows_all_but_internal_scopes() {
    let admin = ScopeSet::NONE.with_scope(Scope::Admin);
    for scope in Scope::ALL {
        assert_eq!(admin.allows(*scope), !scope.is_internal(), "{scope}");
    }
}
