use super::*;

fn scrape_status_and_type(method: &Method, path: &str) -> (u16, String) {
    let render = || Ok("noetl_build_info 1\n".to_owned());
    let response = answer_scrape(method, path, &render);
    let media_type = response.headers()[header::CONTENT_TYPE].to_str().unwrap();
    (response.status().as_u16(), media_type.to_owned())
}

#[test]
fn serves_only_metrics_and_liveness() {
    assert_eq!(scrape_status_and_type(&Method::GET, "/metrics"), (200, CONTENT_TYPE.to_owned()));
    assert_eq!(scrape_status_and_type(&Method::GET, "/livez").0, 200);
    assert_eq!(scrape_status_and_type(&Method::POST, "/metrics").0, 405);
    assert_eq!(scrape_status_and_type(&Method::GET, "/api/executions").0, 404);
}
