//! The URL of an OTLP receiver.

use anyhow::{bail, ensure};
use std::fmt;
use ureq::http::Uri;

/// `http://HOST[:PORT][/PATH]`, without the path of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpUrl(String);

impl OtlpUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// It is not a URL of HTTP, or has a part that a receiver's URL does not have.
    pub fn parse(text: &str) -> anyhow::Result<OtlpUrl> {
        let example = "for example http://127.0.0.1:4318";
        // First: the other errors repeat the text, and this one may contain a password.
        ensure!(!text.contains('@'), "a user in the URL is not supported; omit it");
        if text.starts_with("https:") {
            bail!(
                "`{text}`: TLS is not supported; send to a collector on this machine, which \
                 forwards with TLS, {example}"
            );
        }
        let Ok(uri) = text.parse::<Uri>() else { bail!("`{text}` is not a URL; {example}") };
        let (scheme, authority) = (uri.scheme_str(), uri.authority());
        let is_http = scheme == Some("http") && authority.is_some();
        ensure!(is_http, "`{text}` is not http://HOST[:PORT][/PATH]; {example}");
        let host = authority.map_or("", |authority| authority.host());
        let has_port = authority.is_some_and(|authority| authority.as_str() != host);
        // A port that is not a number of 16 bits would be taken as 80.
        let is_port = uri.port_u16().is_some_and(|port| port != 0);
        ensure!(
            is_port || !has_port,
            "`{text}`: the port must be a number from 1 to 65535; {example}"
        );
        ensure!(uri.query().is_none(), "`{text}`: a query is not supported; {example}");
        Ok(OtlpUrl(text.trim_end_matches('/').to_owned()))
    }

    /// Returns the URL with a path below it.
    pub fn with(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl fmt::Display for OtlpUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_named_by_a_plain_url() {
        let url = |text| OtlpUrl::parse(text).map(|url| url.with("/v1/metrics"));
        assert_eq!(url("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(url("http://[::1]:4318/a/").unwrap(), "http://[::1]:4318/a/v1/metrics");
        let why = |text: &str| OtlpUrl::parse(text).unwrap_err().to_string();
        assert!(why("https://x:4318").contains("send to a collector on this machine"));
        assert!(why("127.0.0.1:4318").contains("for example http://127.0.0.1:4318"));
        assert!(why("ftp://x").contains("is not http://HOST"));
        assert!(why("http://a b").contains("is not a URL"));
        for port in ["99999", "0", "x", ""] {
            let [v4, v6] = ["127.0.0.1", "[::1]"].map(|host| why(&format!("http://{host}:{port}")));
            assert!(v4.contains("port") || v4.contains("is not a URL"), "{v4}");
            assert!(v6.contains("port") || v6.contains("is not a URL"), "{v6}");
        }
        for scheme in ["http", "https", "ftp"] {
            let why = why(&format!("{scheme}://root:secret@x"));
            assert!(why.contains("omit it") && !why.contains("secret"), "{why}");
        }
    }
}
