//! Converts parser events to a node tree and enforces the limits.

use std::collections::HashMap;
use std::sync::Arc;

use noetl_types::Json;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::{MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_NODES, NodeValue, YamlEntry, YamlNode, scalar};
use crate::source::Span;

/// A problem with a text as YAML.
#[derive(Debug)]
pub(crate) enum YamlError {
    /// Invalid or unsupported YAML, with a hint if the cause is a common mistake.
    Syntax { span: Span, reason: String, hint: Option<&'static str> },
    /// A key occurs twice in one map.
    DuplicateKey { span: Span, key: Arc<str>, first: Span },
    /// A limit is exceeded.
    TooLarge { limit: String },
    /// The text contains a second document.
    SecondDocument { span: Span },
}

const QUOTE_TEMPLATES_HINT: &str = "put quotes around a value that starts with '{{': \"{{ … }}\"";

/// Parses the first document. Returns a tree despite errors, where possible.
pub(crate) fn load_yaml(text: &str) -> (Option<YamlNode>, Vec<YamlError>) {
    if text.len() > MAX_DOCUMENT_BYTES {
        let limit = format!("{} MiB", MAX_DOCUMENT_BYTES / 1024 / 1024);
        return (None, vec![YamlError::TooLarge { limit }]);
    }
    let mut loader = YamlLoader::new(text);
    let root = match loader.load_document() {
        Ok(root) => root,
        Err(error) => {
            loader.errors.push(error);
            None
        }
    };
    (root, loader.errors)
}

/// A collection whose end has not been reached yet.
enum OpenCollection {
    List {
        start: Span,
        anchor: usize,
        items: Vec<YamlNode>,
    },
    Map {
        start: Span,
        anchor: usize,
        entries: Vec<YamlEntry>,
        keys: HashMap<Arc<str>, Span>,
        key: Option<(Arc<str>, Span)>,
        merges: Vec<YamlNode>,
    },
}

struct YamlLoader<'t> {
    text: &'t str,
    /// Byte offset of each character, if the text is not ASCII.
    byte_offsets: Option<Vec<u32>>,
    nodes: usize,
    anchors: HashMap<usize, (YamlNode, usize)>,
    stack: Vec<OpenCollection>,
    errors: Vec<YamlError>,
    root: Option<YamlNode>,
}

impl<'t> YamlLoader<'t> {
    fn new(text: &'t str) -> Self {
        let byte_offsets = (!text.is_ascii()).then(|| {
            text.char_indices().map(|(offset, _)| Span::new(offset, offset).start).collect()
        });
        Self {
            text,
            byte_offsets,
            nodes: 0,
            anchors: HashMap::new(),
            stack: Vec::new(),
            errors: Vec::new(),
            root: None,
        }
    }

    fn load_document(&mut self) -> Result<Option<YamlNode>, YamlError> {
        if let Some(offset) = self.text.find('\0') {
            return Err(self
                .syntax_error(Span::new(offset, offset + 1), "the text contains a NUL character"));
        }
        let mut parser = Parser::new_from_str(self.text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.scan_error(&error))?;
            let span = self.convert_span(span);
            match event {
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(_) => {
                    if self.root.is_some() {
                        self.errors.push(YamlError::SecondDocument { span });
                        break;
                    }
                }
                Event::Alias(anchor) => self.expand_alias(anchor, span)?,
                Event::Scalar(text, style, anchor, tag) => {
                    let value = self.resolve_scalar(&text, style, tag.as_deref(), span)?;
                    self.count_nodes(1)?;
                    self.add_node(YamlNode { span, value }, anchor, 1)?;
                }
                Event::SequenceStart(anchor, tag) => {
                    self.check_collection_tag(tag.as_deref(), "seq", span)?;
                    self.open_collection(OpenCollection::List {
                        start: span,
                        anchor,
                        items: Vec::new(),
                    })?;
                }
                Event::MappingStart(anchor, tag) => {
                    self.check_collection_tag(tag.as_deref(), "map", span)?;
                    self.open_collection(OpenCollection::Map {
                        start: span,
                        anchor,
                        entries: Vec::new(),
                        keys: HashMap::new(),
                        key: None,
                        merges: Vec::new(),
                    })?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close_collection(span)?,
            }
        }
        Ok(self.root.take())
    }

    fn open_collection(&mut self, open: OpenCollection) -> Result<(), YamlError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(YamlError::TooLarge { limit: format!("{MAX_DEPTH} levels of nesting") });
        }
        if let Some(OpenCollection::Map { key: None, start, .. }) = self.stack.last() {
            let (OpenCollection::List { start: child_start, .. }
            | OpenCollection::Map { start: child_start, .. }) = &open;
            let is_template =
                self.text.get(start.start as usize..).is_some_and(|t| t.starts_with("{{"));
            return Err(YamlError::Syntax {
                span: if is_template { *start } else { *child_start },
                reason: "a key must be text, not a list or a map".to_owned(),
                hint: is_template.then_some(QUOTE_TEMPLATES_HINT),
            });
        }
        self.count_nodes(1)?;
        self.stack.push(open);
        Ok(())
    }

    fn close_collection(&mut self, end: Span) -> Result<(), YamlError> {
        let (node, anchor) = match self.stack.pop() {
            Some(OpenCollection::List { start, anchor, items }) => {
                let span = collection_span(start, end, items.last().map(|item| item.span));
                (YamlNode { span, value: NodeValue::List(items) }, anchor)
            }
            Some(OpenCollection::Map { start, anchor, mut entries, keys, merges, .. }) => {
                let span =
                    collection_span(start, end, entries.last().map(|entry| entry.value.span));
                merge_entries(&mut entries, keys, merges);
                (YamlNode { span, value: NodeValue::Map(entries) }, anchor)
            }
            None => return Err(self.syntax_error(end, "unexpected end of a collection")),
        };
        let size = if anchor > 0 { count_tree_nodes(&node) } else { 0 };
        self.add_node(node, anchor, size)
    }

    /// Adds a complete node to its parent.
    fn add_node(&mut self, node: YamlNode, anchor: usize, size: usize) -> Result<(), YamlError> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(OpenCollection::List { items, .. }) => items.push(node),
            Some(OpenCollection::Map { entries, keys, key, merges, .. }) => match key.take() {
                None => {
                    let text = match &node.value {
                        NodeValue::Text(text) => Arc::clone(text),
                        // A key such as `1` or `true` is used as written.
                        NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
                            let range = node.span.start as usize..node.span.end as usize;
                            self.text.get(range).unwrap_or_default().into()
                        }
                    };
                    *key = Some((text, node.span));
                }
                Some((text, key_span)) if &*text == "<<" && !is_quoted(self.text, key_span) => {
                    collect_merge_sources(node, merges).map_err(|span| YamlError::Syntax {
                        span,
                        reason: "'<<' requires a map or a list of maps".to_owned(),
                        hint: None,
                    })?;
                }
                Some((text, key_span)) => {
                    if let Some(first) = keys.get(&text).copied() {
                        self.errors.push(YamlError::DuplicateKey {
                            span: key_span,
                            first,
                            key: text,
                        });
                    } else {
                        keys.insert(Arc::clone(&text), key_span);
                        entries.push(YamlEntry { key: text, key_span, value: node });
                    }
                }
            },
        }
        Ok(())
    }

    fn expand_alias(&mut self, anchor: usize, span: Span) -> Result<(), YamlError> {
        let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
            return Err(
                self.syntax_error(span, "the alias refers to itself or to an undefined anchor")
            );
        };
        // Counted before the node is copied into the tree, so that an alias bomb is never expanded.
        self.count_nodes(size)?;
        if self.stack.len() + tree_depth(&node) > MAX_DEPTH {
            return Err(YamlError::TooLarge { limit: format!("{MAX_DEPTH} levels of nesting") });
        }
        self.add_node(node, 0, 0)
    }

    fn count_nodes(&mut self, count: usize) -> Result<(), YamlError> {
        self.nodes += count;
        if self.nodes > MAX_NODES {
            return Err(YamlError::TooLarge { limit: format!("{MAX_NODES} nodes") });
        }
        Ok(())
    }

    fn resolve_scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<NodeValue, YamlError> {
        let as_text = || NodeValue::Text(text.into());
        let plain = |matches_tag: fn(&Json) -> bool| match scalar::resolve_plain_scalar(text) {
            Ok(Some(json)) if matches_tag(&json) => Ok(NodeValue::Plain(json)),
            Ok(_) => Err(self.syntax_error(span, "the value does not match its tag")),
            Err(reason) => Err(self.syntax_error(span, reason)),
        };
        match tag {
            None if style == ScalarStyle::Plain => match scalar::resolve_plain_scalar(text) {
                Ok(Some(json)) => Ok(NodeValue::Plain(json)),
                Ok(None) => Ok(as_text()),
                Err(reason) => Err(self.syntax_error(span, reason)),
            },
            None => Ok(as_text()),
            Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
                "str" => Ok(as_text()),
                "int" => plain(|json| matches!(json, Json::Int(_) | Json::UInt(_))),
                "float" => plain(|json| json.as_f64().is_some()),
                "bool" => plain(|json| json.as_bool().is_some()),
                "null" => plain(Json::is_null),
                other => Err(self.syntax_error(span, &format!("tag '!!{other}' is not supported"))),
            },
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Ok(as_text()),
            Some(tag) => Err(self.syntax_error(span, &format!("tag '{tag}' is not supported"))),
        }
    }

    fn check_collection_tag(
        &self,
        tag: Option<&Tag>,
        name: &str,
        span: Span,
    ) -> Result<(), YamlError> {
        match tag {
            None => Ok(()),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == name => Ok(()),
            Some(tag) => Err(self.syntax_error(span, &format!("tag '{tag}' is not supported"))),
        }
    }

    fn convert_span(&self, span: saphyr_parser::Span) -> Span {
        let byte = |index: usize| match &self.byte_offsets {
            None => index.min(self.text.len()),
            Some(offsets) => offsets.get(index).map_or(self.text.len(), |offset| *offset as usize),
        };
        let (start, mut end) = (byte(span.start.index()), byte(span.end.index()));
        // The parser's spans may include trailing whitespace and comments.
        while end > start && self.text.as_bytes()[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
        Span::new(start, end)
    }

    fn syntax_error(&self, span: Span, reason: &str) -> YamlError {
        let line_start = self
            .text
            .get(..span.start as usize)
            .map_or(0, |head| head.rfind('\n').map_or(0, |newline| newline + 1));
        let line =
            self.text.get(line_start..).and_then(|tail| tail.lines().next()).unwrap_or_default();
        let hint = if line.contains(": {{") {
            Some(QUOTE_TEMPLATES_HINT)
        } else if line.trim_start_matches(' ').starts_with('\t') {
            Some("indent with spaces; YAML does not allow tabs")
        } else {
            None
        };
        YamlError::Syntax { span, reason: reason.to_owned(), hint }
    }

    /// Converts an error of the parser. A tab or an unclosed bracket confuses the parser only at a
    /// later place, so the cause is reported instead of that place.
    fn scan_error(&self, error: &ScanError) -> YamlError {
        let error_span = self.convert_span(saphyr_parser::Span::empty(*error.marker()));
        if let Some(span) = self.indenting_tab(error_span) {
            return self.syntax_error(span, "a tab is used as indentation");
        }
        match self.unclosed_bracket() {
            Some((span, bracket)) => {
                self.syntax_error(span, &format!("'{bracket}' is never closed"))
            }
            None => self.syntax_error(error_span, error.info()),
        }
    }

    /// Returns a tab at the start of the line of an error, or of the line before or after it.
    fn indenting_tab(&self, error: Span) -> Option<Span> {
        let mut offset = 0;
        let mut lines = Vec::new();
        for line in self.text.split_inclusive('\n') {
            let blank = line.len() - line.trim_start().len();
            if !line.trim().is_empty() {
                lines.push((offset..offset + line.len(), offset + blank));
            }
            offset += line.len();
        }
        let at = error.start as usize;
        let current = lines.partition_point(|(line, _)| line.end <= at);
        [Some(current), current.checked_sub(1), current.checked_add(1)]
            .into_iter()
            .flatten()
            .filter_map(|index| lines.get(index))
            .find_map(|(line, content)| {
                let tab = line.start + self.text.get(line.start..*content)?.find('\t')?;
                Some(Span::new(tab, tab + 1))
            })
    }

    /// Returns the innermost bracket that is open at the error and that the text does not close.
    fn unclosed_bracket(&self) -> Option<(Span, char)> {
        self.stack.iter().rev().find_map(|open| {
            let (OpenCollection::List { start, .. } | OpenCollection::Map { start, .. }) = open;
            let start = start.start as usize;
            let bracket = self.text.get(start..)?.chars().next()?;
            let is_open = matches!(bracket, '[' | '{') && !closes_bracket(self.text, start);
            is_open.then(|| (Span::new(start, start + 1), bracket))
        })
    }
}

/// True if the bracket at an offset is closed before a line that is indented like its own.
fn closes_bracket(text: &str, start: usize) -> bool {
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let indent_of = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let own_indent = indent_of(&text[line_start..]);
    let mut depth = 0_usize;
    let mut quote = None;
    for (number, line) in text[start..].lines().enumerate() {
        let content = line.trim_start();
        let is_sibling = number > 0 && !content.is_empty() && indent_of(line) <= own_indent;
        if is_sibling && quote.is_none() && !content.starts_with([']', '}', '#']) {
            return false;
        }
        // A quote or a comment starts only where a value could start.
        let mut before = ' ';
        let mut escaped = false;
        for character in line.chars() {
            match quote {
                Some(open) => {
                    if character == open && !escaped {
                        quote = None;
                    }
                    escaped = open == '"' && character == '\\' && !escaped;
                }
                None => match character {
                    '#' if before.is_whitespace() => break,
                    '"' | '\'' if before.is_whitespace() || "[{,:".contains(before) => {
                        quote = Some(character);
                    }
                    '[' | '{' => depth += 1,
                    ']' | '}' => {
                        depth = depth.saturating_sub(1);
                        if depth == 0 {
                            return true;
                        }
                    }
                    _ => {}
                },
            }
            before = character;
        }
    }
    false
}

fn is_quoted(text: &str, span: Span) -> bool {
    matches!(text.as_bytes().get(span.start as usize), Some(b'"' | b'\''))
}

/// Returns the span of a collection. The end event of a block collection is positioned at the next
/// token, so its span ends with the last item instead.
fn collection_span(start: Span, end: Span, last: Option<Span>) -> Span {
    let end = if end.end > end.start { end.end } else { last.map_or(start.end, |last| last.end) };
    Span { start: start.start, end: end.max(start.start) }
}

fn collect_merge_sources(node: YamlNode, merges: &mut Vec<YamlNode>) -> Result<(), Span> {
    match node.value {
        NodeValue::Map(_) => merges.push(node),
        NodeValue::List(items) if items.iter().all(|item| item.as_map().is_some()) => {
            merges.extend(items);
        }
        NodeValue::Plain(_) | NodeValue::Text(_) | NodeValue::List(_) => return Err(node.span),
    }
    Ok(())
}

/// Adds merged keys. Keys of the map itself take precedence over merged keys, and earlier sources
/// over later ones.
fn merge_entries(
    entries: &mut Vec<YamlEntry>,
    mut keys: HashMap<Arc<str>, Span>,
    merges: Vec<YamlNode>,
) {
    for source in merges {
        let NodeValue::Map(source) = source.value else {
            continue;
        };
        for entry in source {
            if keys.insert(Arc::clone(&entry.key), entry.key_span).is_none() {
                entries.push(entry);
            }
        }
    }
}

fn count_tree_nodes(node: &YamlNode) -> usize {
    1 + match &node.value {
        NodeValue::Plain(_) | NodeValue::Text(_) => 0,
        NodeValue::List(items) => items.iter().map(count_tree_nodes).sum::<usize>(),
        NodeValue::Map(entries) => {
            entries.iter().map(|entry| 1 + count_tree_nodes(&entry.value)).sum::<usize>()
        }
    }
}

fn tree_depth(node: &YamlNode) -> usize {
    match &node.value {
        NodeValue::Plain(_) | NodeValue::Text(_) => 0,
        NodeValue::List(items) => 1 + items.iter().map(tree_depth).max().unwrap_or(0),
        NodeValue::Map(entries) => {
            1 + entries.iter().map(|entry| tree_depth(&entry.value)).max().unwrap_or(0)
        }
    }
}
