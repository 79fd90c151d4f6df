use super::nearest_name;

#[test]
fn suggests_similar_name() {
    assert_eq!(nearest_name("fnish", ["start", "finish"]), Some("finish"));
    assert_eq!(nearest_name("Kind", ["kind"]), Some("kind"));
    assert_eq!(nearest_name("pyhton", ["python", "http"]), Some("python"));
    assert_eq!(nearest_name("ab", ["xy"]), None);
    assert_eq!(nearest_name("completely", ["different"]), None);
}
