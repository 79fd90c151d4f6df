use super::*;

const PAGE: &str = "# NP999: title\n\nText with `code`, **bold** and a lone `.\n\n\
        ## Reported for\n\n```yaml at=2:1\na: 1\nb: 2\n```\n";

#[test]
fn renders_headings_and_code() {
    insta::assert_snapshot!(render_markdown(PAGE, ColorPaint::PLAIN), @r"
        NP999: title

        Text with `code`, **bold** and a lone `.

        Reported for

            a: 1
          > b: 2
        ");
}
