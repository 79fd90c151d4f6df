use super::*;

#[test]
fn parses_target_from_key() {
    let path = |parts: &[&str]| parts.iter().map(|p| Arc::from(*p)).collect::<Vec<Arc<str>>>();
    assert_eq!(SetTarget::parse("ctx.a.b"), Ok(SetTarget::Ctx(path(&["a", "b"]))));
    assert_eq!(SetTarget::parse("iter.page"), Ok(SetTarget::Iter(path(&["page"]))));
    assert_eq!(SetTarget::parse("step.n"), Ok(SetTarget::Step(path(&["n"]))));
    assert_eq!(SetTarget::parse("n"), Ok(SetTarget::Bare("n".into())));
    assert_eq!(SetTarget::parse("cxt.n"), Ok(SetTarget::Bare("cxt.n".into())));
    for key in [
        "", "ctx", "ctx.", "ctx..a", "workload.x", "steps.a", "keychain.k", "execution_id",
        "iter.parent",
    ] {
        assert_eq!(SetTarget::parse(key), Err(ReservedName), "{key}");
    }
}
