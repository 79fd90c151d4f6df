//! From parser events to a tree, within bounds.

use std::collections::HashMap;
use std::sync::Arc;

use noetl_types::Json;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::node::{Entry, Node, NodeValue};
use super::{MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_NODES, scalar};
use crate::source::Span;

/// What is wrong with a text as YAML.
#[derive(Debug)]
pub(crate) enum YamlFault {
    /// It is not YAML, or not YAML that we read; with a hint where the cause is a usual one.
    Syntax {
        span: Span,
        reason: String,
        hint: Option<&'static str>,
    },
    /// A key stands twice in one map.
    DuplicateKey {
        span: Span,
        key: Arc<str>,
        first: Span,
    },
    /// A bound is passed.
    TooLarge { limit: String },
    /// A second document follows.
    SecondDocument { span: Span },
}

const QUOTE_TEMPLATES: &str = "a value that starts with '{{' needs quotes around it: \"{{ … }}\"";

/// Reads the first document. Faults that leave a usable tree come with it.
pub(crate) fn load(text: &str) -> (Option<Node>, Vec<YamlFault>) {
    if text.len() > MAX_DOCUMENT_BYTES {
        let limit = format!("{} MiB", MAX_DOCUMENT_BYTES / 1024 / 1024);
        return (None, vec![YamlFault::TooLarge { limit }]);
    }
    let mut loader = Loader::new(text);
    let root = match loader.run() {
        Ok(root) => root,
        Err(fault) => {
            loader.faults.push(fault);
            None
        }
    };
    (root, loader.faults)
}

/// A collection whose end has not come yet.
enum Open {
    List {
        start: Span,
        anchor: usize,
        items: Vec<Node>,
    },
    Map {
        start: Span,
        anchor: usize,
        entries: Vec<Entry>,
        keys: HashMap<Arc<str>, Span>,
        key: Option<(Arc<str>, Span)>,
        merges: Vec<Node>,
    },
}

struct Loader<'t> {
    text: &'t str,
    /// Byte offset of each character, where the two differ.
    byte_of: Option<Vec<u32>>,
    nodes: usize,
    anchors: HashMap<usize, (Node, usize)>,
    stack: Vec<Open>,
    faults: Vec<YamlFault>,
    root: Option<Node>,
}

impl<'t> Loader<'t> {
    fn new(text: &'t str) -> Self {
        let byte_of = (!text.is_ascii()).then(|| {
            text.char_indices()
                .map(|(at, _)| Span::new(at, at).start)
                .collect()
        });
        Self {
            text,
            byte_of,
            nodes: 0,
            anchors: HashMap::new(),
            stack: Vec::new(),
            faults: Vec::new(),
            root: None,
        }
    }

    fn run(&mut self) -> Result<Option<Node>, YamlFault> {
        if let Some(at) = self.text.find('\0') {
            return Err(self.syntax(Span::new(at, at + 1), "the text contains a NUL character"));
        }
        let mut parser = Parser::new_from_str(self.text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.scan_error(&error))?;
            let span = self.span(span);
            match event {
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(_) => {
                    if self.root.is_some() {
                        self.faults.push(YamlFault::SecondDocument { span });
                        break;
                    }
                }
                Event::Alias(anchor) => self.alias(anchor, span)?,
                Event::Scalar(text, style, anchor, tag) => {
                    let value = self.scalar(&text, style, tag.as_deref(), span)?;
                    self.count(1)?;
                    self.finish(Node { span, value }, anchor, 1)?;
                }
                Event::SequenceStart(anchor, tag) => {
                    self.collection_tag(tag.as_deref(), "seq", span)?;
                    self.open(Open::List {
                        start: span,
                        anchor,
                        items: Vec::new(),
                    })?;
                }
                Event::MappingStart(anchor, tag) => {
                    self.collection_tag(tag.as_deref(), "map", span)?;
                    self.open(Open::Map {
                        start: span,
                        anchor,
                        entries: Vec::new(),
                        keys: HashMap::new(),
                        key: None,
                        merges: Vec::new(),
                    })?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            }
        }
        Ok(self.root.take())
    }

    fn open(&mut self, open: Open) -> Result<(), YamlFault> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(YamlFault::TooLarge {
                limit: format!("{MAX_DEPTH} levels of nesting"),
            });
        }
        if let Some(Open::Map {
            key: None, start, ..
        }) = self.stack.last()
        {
            let (Open::List { start: at, .. } | Open::Map { start: at, .. }) = &open;
            let template = self
                .text
                .get(start.start as usize..)
                .is_some_and(|t| t.starts_with("{{"));
            return Err(YamlFault::Syntax {
                span: if template { *start } else { *at },
                reason: "a key must be a text, not a list or a map".to_owned(),
                hint: template.then_some(QUOTE_TEMPLATES),
            });
        }
        self.count(1)?;
        self.stack.push(open);
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), YamlFault> {
        let (node, anchor) = match self.stack.pop() {
            Some(Open::List {
                start,
                anchor,
                items,
            }) => {
                let span = collection_span(start, end, items.last().map(|item| item.span));
                (
                    Node {
                        span,
                        value: NodeValue::List(items),
                    },
                    anchor,
                )
            }
            Some(Open::Map {
                start,
                anchor,
                mut entries,
                keys,
                merges,
                ..
            }) => {
                let span =
                    collection_span(start, end, entries.last().map(|entry| entry.value.span));
                merge(&mut entries, keys, merges);
                (
                    Node {
                        span,
                        value: NodeValue::Map(entries),
                    },
                    anchor,
                )
            }
            None => return Err(self.syntax(end, "a collection ends that never began")),
        };
        let size = if anchor > 0 { size_of(&node) } else { 0 };
        self.finish(node, anchor, size)
    }

    /// Puts a complete node where it belongs.
    fn finish(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), YamlFault> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map {
                entries,
                keys,
                key,
                merges,
                ..
            }) => match key.take() {
                None => {
                    let text = match &node.value {
                        NodeValue::Text(text) => Arc::clone(text),
                        // A key such as `1` or `true` is meant as it is written.
                        NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
                            let range = node.span.start as usize..node.span.end as usize;
                            self.text.get(range).unwrap_or_default().into()
                        }
                    };
                    *key = Some((text, node.span));
                }
                Some((text, key_span)) if &*text == "<<" && !quoted(self.text, key_span) => {
                    merge_sources(node, merges).map_err(|span| YamlFault::Syntax {
                        span,
                        reason: "'<<' takes a map or a list of maps".to_owned(),
                        hint: None,
                    })?;
                }
                Some((text, key_span)) => {
                    if let Some(first) = keys.get(&text).copied() {
                        self.faults.push(YamlFault::DuplicateKey {
                            span: key_span,
                            first,
                            key: text,
                        });
                    } else {
                        keys.insert(Arc::clone(&text), key_span);
                        entries.push(Entry {
                            key: text,
                            key_span,
                            value: node,
                        });
                    }
                }
            },
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), YamlFault> {
        let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
            return Err(self.syntax(span, "the alias refers to itself or to nothing"));
        };
        // Counted before anything is copied on, so that a bomb never unfolds.
        self.count(size)?;
        if self.stack.len() + depth_of(&node) > MAX_DEPTH {
            return Err(YamlFault::TooLarge {
                limit: format!("{MAX_DEPTH} levels of nesting"),
            });
        }
        self.finish(node, 0, 0)
    }

    fn count(&mut self, more: usize) -> Result<(), YamlFault> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(YamlFault::TooLarge {
                limit: format!("{MAX_NODES} nodes"),
            });
        }
        Ok(())
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<NodeValue, YamlFault> {
        let as_text = || NodeValue::Text(text.into());
        let plain = |wanted: fn(&Json) -> bool| match scalar::resolve(text) {
            Ok(Some(json)) if wanted(&json) => Ok(NodeValue::Plain(json)),
            Ok(_) => Err(self.syntax(span, "the value does not fit its tag")),
            Err(reason) => Err(self.syntax(span, reason)),
        };
        match tag {
            None if style == ScalarStyle::Plain => match scalar::resolve(text) {
                Ok(Some(json)) => Ok(NodeValue::Plain(json)),
                Ok(None) => Ok(as_text()),
                Err(reason) => Err(self.syntax(span, reason)),
            },
            None => Ok(as_text()),
            Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
                "str" => Ok(as_text()),
                "int" => plain(|json| matches!(json, Json::Int(_) | Json::UInt(_))),
                "float" => plain(|json| json.as_f64().is_some()),
                "bool" => plain(|json| json.as_bool().is_some()),
                "null" => plain(Json::is_null),
                other => Err(self.syntax(span, &format!("tag '!!{other}' is not supported"))),
            },
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Ok(as_text()),
            Some(tag) => Err(self.syntax(span, &format!("tag '{tag}' is not supported"))),
        }
    }

    fn collection_tag(&self, tag: Option<&Tag>, name: &str, span: Span) -> Result<(), YamlFault> {
        match tag {
            None => Ok(()),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == name => Ok(()),
            Some(tag) => Err(self.syntax(span, &format!("tag '{tag}' is not supported"))),
        }
    }

    fn span(&self, span: saphyr_parser::Span) -> Span {
        let byte = |index: usize| match &self.byte_of {
            None => index.min(self.text.len()),
            Some(byte_of) => byte_of
                .get(index)
                .map_or(self.text.len(), |at| *at as usize),
        };
        let (start, mut end) = (byte(span.start.index()), byte(span.end.index()));
        // The parser's spans may reach over blanks and comments that follow.
        while end > start && self.text.as_bytes()[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
        Span::new(start, end)
    }

    fn syntax(&self, span: Span, reason: &str) -> YamlFault {
        let line_start = self
            .text
            .get(..span.start as usize)
            .map_or(0, |head| head.rfind('\n').map_or(0, |at| at + 1));
        let line = self
            .text
            .get(line_start..)
            .and_then(|tail| tail.lines().next())
            .unwrap_or_default();
        let hint = if line.contains(": {{") {
            Some(QUOTE_TEMPLATES)
        } else if line.trim_start_matches(' ').starts_with('\t') {
            Some("indent with blanks; YAML does not take tabs")
        } else {
            None
        };
        YamlFault::Syntax {
            span,
            reason: reason.to_owned(),
            hint,
        }
    }

    fn scan_error(&self, error: &ScanError) -> YamlFault {
        let at = self.span(saphyr_parser::Span::empty(*error.marker()));
        let at_end = self
            .text
            .get(at.start as usize..)
            .is_none_or(|rest| rest.trim().is_empty());
        match self.open_bracket().filter(|_| at_end) {
            // The end of the file says little; the bracket that was never closed says it all.
            Some((span, bracket)) => self.syntax(span, &format!("'{bracket}' is never closed")),
            None => self.syntax(at, error.info()),
        }
    }

    /// The innermost bracket that is still open.
    fn open_bracket(&self) -> Option<(Span, char)> {
        let (Open::List { start, .. } | Open::Map { start, .. }) = self.stack.last()?;
        let bracket = self.text.get(start.start as usize..)?.chars().next()?;
        let span = Span::new(start.start as usize, start.start as usize + 1);
        matches!(bracket, '[' | '{').then_some((span, bracket))
    }
}

fn quoted(text: &str, span: Span) -> bool {
    matches!(text.as_bytes().get(span.start as usize), Some(b'"' | b'\''))
}

/// A block collection's end event stands where the next token begins; its text ends with its last item.
fn collection_span(start: Span, end: Span, last: Option<Span>) -> Span {
    let end = if end.end > end.start {
        end.end
    } else {
        last.map_or(start.end, |last| last.end)
    };
    Span {
        start: start.start,
        end: end.max(start.start),
    }
}

fn merge_sources(node: Node, merges: &mut Vec<Node>) -> Result<(), Span> {
    match node.value {
        NodeValue::Map(_) => merges.push(node),
        NodeValue::List(items) if items.iter().all(|item| item.as_map().is_some()) => {
            merges.extend(items);
        }
        NodeValue::Plain(_) | NodeValue::Text(_) | NodeValue::List(_) => return Err(node.span),
    }
    Ok(())
}

/// Keys of the map itself win over merged ones, earlier sources over later ones.
fn merge(entries: &mut Vec<Entry>, mut keys: HashMap<Arc<str>, Span>, merges: Vec<Node>) {
    for source in merges {
        let NodeValue::Map(source) = source.value else {
            continue;
        };
        for entry in source {
            if keys
                .insert(Arc::clone(&entry.key), entry.key_span)
                .is_none()
            {
                entries.push(entry);
            }
        }
    }
}

fn size_of(node: &Node) -> usize {
    1 + match &node.value {
        NodeValue::Plain(_) | NodeValue::Text(_) => 0,
        NodeValue::List(items) => items.iter().map(size_of).sum::<usize>(),
        NodeValue::Map(entries) => entries
            .iter()
            .map(|entry| 1 + size_of(&entry.value))
            .sum::<usize>(),
    }
}

fn depth_of(node: &Node) -> usize {
    match &node.value {
        NodeValue::Plain(_) | NodeValue::Text(_) => 0,
        NodeValue::List(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        NodeValue::Map(entries) => {
            1 + entries
                .iter()
                .map(|entry| depth_of(&entry.value))
                .max()
                .unwrap_or(0)
        }
    }
}
