use noetl_types::ErrorCode;

use super::*;

#[test]
fn other_tenant_is_not_found_and_other_pool_is_forbidden() {
    let acme = TenantId::new("acme").unwrap();
    let gpu = PoolName::new("gpu").unwrap();
    let auth = AuthContext {
        tenant_id: acme.clone(),
        pools: Some([gpu.clone()].into()),
        ..AuthContext::default()
    };
    let code = |tenant: &TenantId, queue: &PoolName| {
        auth.check_execution_access(tenant, queue).err().and_then(|error| error.code())
    };
    assert_eq!(code(&acme, &gpu.tenant_queue(&acme)), None);
    let shared = PoolName::shared();
    assert_eq!(code(&acme, &shared.tenant_queue(&acme)), Some(ErrorCode::Forbidden));
    let default = TenantId::default();
    assert_eq!(code(&default, &gpu), Some(ErrorCode::NotFound));
    assert_eq!(auth.served_queue(&gpu).unwrap(), "acme.gpu");
    assert!(auth.served_queue(&shared).is_err());
}
