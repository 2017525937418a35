//! Allows only HTTP/1.1 requests for the decided host on a connection.
//!
//! A grant of `http` names a host, but an address may serve many hosts, and the head of a request selects one. So a connection
//! under such a grant carries only complete, unambiguous requests: one `Host`, which is the host of the connection; a body framed
//! by one `Content-Length` or by `Transfer-Encoding: chunked`, never both; no `CONNECT`; lines that end in CRLF. A head is sent
//! only after all of it has been checked. After a request to upgrade and the server's `101`, both sides speak another protocol
//! with that host, and any bytes pass.

use pijs_protocol::{HostcallError, guard};

/// Maximum size in bytes of a head, of trailers, and of the line with a chunk's size.
const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_LINE: usize = 1 << 10;
/// Start of the response that accepts an upgrade.
const SWITCHING: &[u8] = b"HTTP/1.1 101";

/// The server that requests may name.
#[derive(Debug, Clone)]
pub(super) struct RequestServer {
    /// The server's name in lower case, as the gate decided about it and as the caller wrote it.
    pub(super) names: Vec<String>,
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

/// Filters the requests on one connection.
#[derive(Debug)]
pub(super) struct RequestFilter {
    server: RequestServer,
    state: FilterState,
    /// Bytes of an incomplete head, chunk size or trailers.
    pending: Vec<u8>,
    upgrade: Upgrade,
    heads: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterState {
    Head,
    /// Remaining bytes of a body.
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    /// The line break after a chunk.
    ChunkEnd,
    Trailers,
    /// The connection was upgraded to another protocol: any bytes pass.
    Upgraded,
    /// A request was refused; nothing more is sent.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Upgrade {
    None,
    /// The first request asks for an upgrade; contains the start of the response.
    Requested(Vec<u8>),
}

/// The framing of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
}

impl RequestFilter {
    pub(super) fn new(server: RequestServer) -> Self {
        Self { server, state: FilterState::Head, pending: Vec::new(), upgrade: Upgrade::None, heads: 0 }
    }

    /// Returns the bytes that may be sent now, from `bytes` and from the pending ones.
    pub(super) fn filter(&mut self, bytes: &[u8]) -> Result<Vec<u8>, HostcallError> {
        if !guard!(NetRequests) {
            return Ok(bytes.to_vec());
        }
        let mut out = Vec::with_capacity(bytes.len());
        let taken = self.advance(bytes, &mut out);
        taken.map(|()| out).map_err(|problem| {
            self.state = FilterState::Refused;
            self.pending = Vec::new();
            self.refusal(&problem)
        })
    }

    /// Inspects the start of the server's response.
    pub(super) fn inspect_response(&mut self, bytes: &[u8]) {
        let Upgrade::Requested(seen) = &mut self.upgrade else { return };
        let missing = SWITCHING.len() - seen.len();
        seen.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        if !SWITCHING.starts_with(seen) {
            self.upgrade = Upgrade::None;
        } else if seen.len() == SWITCHING.len() {
            self.upgrade = Upgrade::None;
            // Data sent since the request would be ambiguous, so an upgrade is accepted only if there is none.
            if self.state == FilterState::Head && self.pending.is_empty() && self.heads == 1 {
                self.state = FilterState::Upgraded;
            }
        }
    }

    fn advance(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.state {
                FilterState::Upgraded => {
                    out.extend_from_slice(bytes);
                    return Ok(());
                }
                FilterState::Refused => return Err("an earlier part of the connection was refused".to_owned()),
                FilterState::Body(left) => {
                    let left = pass(&mut bytes, left, out);
                    self.state = if left == 0 { FilterState::Head } else { FilterState::Body(left) };
                }
                FilterState::ChunkData(left) => {
                    let left = pass(&mut bytes, left, out);
                    self.state = if left == 0 { FilterState::ChunkEnd } else { FilterState::ChunkData(left) };
                }
                FilterState::ChunkEnd => {
                    if self.line(&mut bytes, 2)? {
                        if self.pending != b"\r\n" {
                            return Err("a chunk does not end where it should".to_owned());
                        }
                        out.append(&mut self.pending);
                        self.state = FilterState::ChunkSize;
                    }
                }
                FilterState::ChunkSize => {
                    if self.line(&mut bytes, LONGEST_LINE)? {
                        let size = chunk_size(&self.pending)?;
                        out.append(&mut self.pending);
                        self.state = if size == 0 { FilterState::Trailers } else { FilterState::ChunkData(size) };
                    }
                }
                FilterState::Trailers => {
                    if self.line(&mut bytes, LONGEST_HEAD)? && ends_head(&self.pending) {
                        check_trailers(&self.pending)?;
                        out.append(&mut self.pending);
                        self.state = FilterState::Head;
                    }
                }
                FilterState::Head => {
                    self.check_method(bytes)?;
                    if self.line(&mut bytes, LONGEST_HEAD)? && ends_head(&self.pending) {
                        let framing = self.head()?;
                        out.append(&mut self.pending);
                        self.state = match framing {
                            Framing::Chunked => FilterState::ChunkSize,
                            Framing::Length(0) => FilterState::Head,
                            Framing::Length(left) => FilterState::Body(left),
                        };
                    }
                }
            }
        }
        Ok(())
    }

    /// Moves bytes up to the end of a line into `pending`; returns whether the line is complete.
    fn line(&mut self, bytes: &mut &[u8], longest: usize) -> Result<bool, String> {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let (line, rest) = bytes.split_at(end);
        if self.pending.len() + line.len() > longest {
            return Err(format!("a head or a line of it has more than {longest} bytes"));
        }
        self.pending.extend_from_slice(line);
        *bytes = rest;
        if self.pending.last() != Some(&b'\n') {
            return Ok(false);
        }
        match self.pending.ends_with(b"\r\n") {
            true => Ok(true),
            false => Err("a line ends without a carriage return".to_owned()),
        }
    }

    /// Fails early for data that does not begin with a method and so cannot be a request.
    fn check_method(&self, bytes: &[u8]) -> Result<(), String> {
        let word = self.pending.iter().chain(bytes).take_while(|byte| **byte != b' ').take(32);
        match word.clone().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_')) && word.count() < 32 {
            true => Ok(()),
            false => Err("the data does not begin with the method of a request".to_owned()),
        }
    }

    /// Checks the complete head in `pending`.
    fn head(&mut self) -> Result<Framing, String> {
        let text = str::from_utf8(&self.pending).ok().filter(|text| has_no_controls(text));
        // Bytes above ASCII are allowed in values: decoded as Latin-1, they contain no delimiter.
        let latin;
        let text = match text {
            Some(text) => text,
            None => {
                latin = self.pending.iter().copied().map(char::from).collect::<String>();
                if !has_no_controls(&latin) {
                    return Err("a head contains control characters".to_owned());
                }
                &latin
            }
        };
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let version = self.request_line(lines.next().unwrap_or_default())?;
        let (mut hosts, mut lengths, mut codings, mut upgrades) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for line in lines {
            let (name, value) = field(line)?;
            match name.to_ascii_lowercase().as_str() {
                "host" => hosts.push(value),
                "content-length" => lengths.push(value),
                "transfer-encoding" => codings.push(value),
                "upgrade" => upgrades.push(value.to_ascii_lowercase()),
                _ => {}
            }
        }
        match hosts.as_slice() {
            [host] => self.check_authority(host)?,
            [] => return Err("a request has no Host".to_owned()),
            _ => return Err("a request has more than one Host".to_owned()),
        }
        let framing = match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Framing::Length(0),
            ([length], []) => Framing::Length(decimal(length).ok_or("a Content-Length is not a number")?),
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") && version == "HTTP/1.1" => Framing::Chunked,
            ([], _) => return Err("a Transfer-Encoding is not `chunked`".to_owned()),
            (_, []) => return Err("a request has more than one Content-Length".to_owned()),
            _ => return Err("a request has both Content-Length and Transfer-Encoding".to_owned()),
        };
        let is_http = |protocol: &String| {
            ["h2", "http", "tls"].iter().any(|known| protocol.trim_start().starts_with(known)) || protocol.contains(',')
        };
        if upgrades.len() > 1 || upgrades.iter().any(is_http) {
            return Err("an upgrade to another version of HTTP is not checked".to_owned());
        }
        self.heads += 1;
        self.upgrade = match upgrades.len() == 1 && self.heads == 1 && framing == Framing::Length(0) {
            true => Upgrade::Requested(Vec::new()),
            false => Upgrade::None,
        };
        Ok(framing)
    }

    /// Checks `METHOD target HTTP/1.1`; returns the version.
    fn request_line<'a>(&self, line: &'a str) -> Result<&'a str, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let [method, target, version] = words.as_slice() else {
            return Err("the first line is not `METHOD target HTTP/1.1`".to_owned());
        };
        if method.is_empty() || matches!(*method, "CONNECT" | "TRACE" | "PRI") {
            return Err(format!("the method {method:?} is not available"));
        }
        if !matches!(*version, "HTTP/1.1" | "HTTP/1.0") {
            return Err("the first line does not end in HTTP/1.1".to_owned());
        }
        if target.starts_with('/') || (*target == "*" && *method == "OPTIONS") {
            return Ok(version);
        }
        let url = url::Url::parse(target).map_err(|_| format!("the target {target:?} is neither a path nor a URL"))?;
        let scheme = if self.server.is_tls { "https" } else { "http" };
        if url.scheme() != scheme || !url.username().is_empty() || url.password().is_some() {
            return Err(format!("the target {target:?} is not a URL of this server"));
        }
        let authority = target.split_once("://").map_or("", |(_, rest)| rest);
        self.check_authority(authority.split(['/', '?', '#']).next().unwrap_or_default())?;
        Ok(version)
    }

    /// Checks that `host` or `host:port` is this server.
    fn check_authority(&self, authority: &str) -> Result<(), String> {
        let lower = authority.to_ascii_lowercase();
        let (name, port) = match lower.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (lower.as_str(), None),
        };
        let is_port = port.is_none_or(|port| decimal(port) == Some(u64::from(self.server.port)));
        match self.server.names.iter().any(|known| known == name) && is_port {
            true => Ok(()),
            false => Err(format!("a request is for the host {authority:?}")),
        }
    }

    fn refusal(&self, problem: &str) -> HostcallError {
        let RequestServer { names, port, .. } = &self.server;
        let server = format!("{}:{port}", names.first().map_or("", String::as_str));
        HostcallError::denied(
            "scope",
            format!(
                "net: not sent to {server}: {}. A grant of `http` covers HTTP/1.1 requests for that host; other bytes \
                 need `http:tcp://{server}`",
                pijs_hostcall::prompt::shown(problem, 300)
            ),
        )
        .with("capability", "http")
    }
}

/// Moves up to `left` bytes from `bytes` to `out`; returns how many of the `left` bytes are still missing.
fn pass(bytes: &mut &[u8], left: u64, out: &mut Vec<u8>) -> u64 {
    let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    let (now, rest) = bytes.split_at(count);
    out.extend_from_slice(now);
    *bytes = rest;
    left - count as u64
}

fn ends_head(pending: &[u8]) -> bool {
    pending.ends_with(b"\r\n\r\n") || pending == b"\r\n"
}

/// Returns whether a text has no control characters except tabs and line ends.
fn has_no_controls(text: &str) -> bool {
    let is_odd = |c: char| (c < ' ' && c != '\t') || c == '\u{7f}';
    !text.split("\r\n").any(|line| line.contains(is_odd))
}

/// Parses `name: value`. A space before the colon, and a continuation line, are errors.
fn field(line: &str) -> Result<(&str, &str), String> {
    let (name, value) = line.split_once(':').ok_or("a header line has no colon")?;
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match !name.is_empty() && name.chars().all(is_token) {
        true => Ok((name, value.trim_matches([' ', '\t']))),
        false => Err("the name of a header is not a token".to_owned()),
    }
}

/// Parses a decimal number without a sign.
fn decimal(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Parses the size of a chunk; its extensions are ignored.
fn chunk_size(line: &[u8]) -> Result<u64, String> {
    let bad = || "the size of a chunk is not a number".to_owned();
    let text = str::from_utf8(line).map_err(|_| bad())?.trim_end_matches("\r\n");
    if !has_no_controls(text) {
        return Err(bad());
    }
    let digits = text.split(';').next().unwrap_or_default();
    let is_hex = (1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or_else(bad)
}

/// Checks the fields after a chunked body. Fails if one of them could change the framing or the host.
fn check_trailers(pending: &[u8]) -> Result<(), String> {
    let text: String = pending.iter().copied().map(char::from).collect();
    if !has_no_controls(&text) {
        return Err("trailers contain control characters".to_owned());
    }
    for line in text.trim_end_matches("\r\n").split("\r\n").filter(|line| !line.is_empty()) {
        let (name, _) = field(line)?;
        if ["host", "content-length", "transfer-encoding", "upgrade"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
        {
            return Err(format!("the field {name:?} is not allowed in trailers"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> RequestFilter {
        RequestFilter::new(RequestServer { names: vec!["a.example".to_owned()], port: 80, is_tls: false })
    }

    #[test]
    fn whole_requests_pass_however_they_are_cut() {
        let sent = concat!(
            "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "POST /x?y HTTP/1.1\r\nhost: A.example:80\r\nContent-Length: 3\r\n\r\nabc",
            "PUT /x HTTP/1.1\r\nHost:a.example\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-T: v\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a.example\r\nX: \u{fc}\r\n\r\n",
            "GET http://a.example/x HTTP/1.0\r\nHost: a.example\r\n\r\n",
        );
        for size in [1, 2, 7, sent.len()] {
            let mut requests = requests();
            let mut out = Vec::new();
            for piece in sent.as_bytes().chunks(size) {
                out.extend(requests.filter(piece).unwrap_or_else(|error| panic!("{size}: {}", error.message)));
            }
            assert_eq!(String::from_utf8(out).expect("as it was"), sent, "{size}");
        }
    }

    #[test]
    fn a_head_goes_out_when_all_of_it_is_there() {
        let mut requests = requests();
        assert_eq!(requests.filter(b"GET / HTTP/1.1\r\nHost: a.ex").expect("begins"), b"");
        assert_eq!(requests.filter(b"ample\r\n\r\n").expect("ends").len(), 35);
    }

    #[test]
    fn requests_for_other_hosts_and_ambiguous_requests_are_refused() {
        let get = "GET / HTTP/1.1\r\nHost: a.example\r\n";
        for refused in [
            "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "GET http://a.example@b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "CONNECT b.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\nHost: b.example\n\n".to_owned(),
            "GET / HTTP/1.1\r\nHost : b.example\r\n\r\n".to_owned(),
            "GET / HTTP/1.1 \r\nHost: a.example\r\n\r\n".to_owned(),
            "GET /\r\n".to_owned() + "\r\n",
            "PRI * HTTP/2.0\r\n\r\n".to_owned(),
            "\u{16}\u{3}\u{1}hello".to_owned(),
            "*1\r\n$4\r\nPING\r\n".to_owned(),
            "\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
            format!("{get} Host: b.example\r\n\r\n"),
            format!("{get}X: a\rHost: b.example\r\n\r\n"),
            format!("{get}X: a\0\r\n\r\n"),
            format!("{get}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
            format!("{get}Content-Length: 3\r\nContent-Length: 4\r\n\r\n"),
            format!("{get}Content-Length: +3\r\n\r\n"),
            format!("{get}Content-Length: 3, 3\r\n\r\n"),
            format!("{get}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
            format!("{get}Transfer-Encoding: gzip, chunked\r\n\r\n"),
            format!("{get}Transfer-Encoding: \u{b}chunked\r\n\r\n"),
            format!("{get}Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
            format!("{get}Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n"),
            format!("{get}Transfer-Encoding: chunked\r\n\r\n3\r\nabcGET / HTTP/1.1\r\n"),
            format!("{get}Transfer-Encoding: chunked\r\n\r\n0\r\nHost: b.example\r\n\r\n"),
            format!("{get}Content-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: b.example\r\n\r\n"),
        ] {
            let mut requests = requests();
            let error = requests.filter(refused.as_bytes()).expect_err(&refused);
            assert_eq!(error.details["reason"], "scope", "{refused:?}");
            // Nothing more is sent.
            requests.filter(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect_err(&refused);
        }
    }

    #[test]
    fn bytes_pass_after_the_server_has_switched_and_not_before() {
        let upgrade = b"GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let mut switched = requests();
        switched.filter(upgrade).expect("a request");
        switched.inspect_response(b"HTTP/1.1 1");
        switched.inspect_response(b"01 Switching Protocols\r\n");
        assert_eq!(switched.filter(b"\x81\x00").expect("a frame"), b"\x81\x00");

        let mut refused = requests();
        refused.filter(upgrade).expect("a request");
        refused.inspect_response(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 101 ");
        refused.filter(b"\x81\x00").expect_err("no frame");

        let mut early = requests();
        early.filter(upgrade).expect("a request");
        early.filter(b"\x81\x00").expect_err("no frame");

        // Only the response to the first request is inspected.
        let mut second = requests();
        second.filter(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("a request");
        second.filter(upgrade).expect("a request");
        second.inspect_response(b"HTTP/1.1 101 ");
        second.filter(b"\x81\x00").expect_err("no frame");
    }
}
