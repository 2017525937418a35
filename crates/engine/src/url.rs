//! Parses URLs with the `url` crate and returns their WHATWG parts as plain objects.
//!
//! TypeScript implements `URL` and `URLSearchParams` on top of this.

use crate::native_call::NativeCall;
use crate::values::{put, string_to_js};
use rquickjs::{Ctx, Object, Result, Value};
use url::{Url, quirks};

/// `parseUrl(input, base?)`: returns the parts, or `null` if the input is not a URL.
pub(crate) fn parse<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let input = call.text(0)?;
    let parsed = match call.optional_text(1)? {
        Some(base) => Url::parse(&base).and_then(|base| base.join(&input)),
        None => Url::parse(&input),
    };
    match parsed {
        Ok(url) => parts(call.ctx(), &url),
        Err(_) => Ok(Value::new_null(call.ctx().clone())),
    }
}

/// `setUrlPart(href, part, value)`: returns the parts after the change. An invalid value has no effect, except that the result is
/// `null` if `part` is `href` and the value is not a URL.
pub(crate) fn set_part<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (href, part, value) = (call.text(0)?, call.text(1)?, call.text(2)?);
    let Ok(mut url) = Url::parse(&href) else { return Ok(Value::new_null(call.ctx().clone())) };
    // The setters of the URL Standard ignore invalid values; only `href` throws.
    let _ = match part.as_str() {
        "href" => match Url::parse(&value) {
            Ok(whole) => {
                url = whole;
                Ok(())
            }
            Err(_) => return Ok(Value::new_null(call.ctx().clone())),
        },
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, &value);
            Ok(())
        }
        _ => return Err(rquickjs::Exception::throw_type(call.ctx(), &format!("setUrlPart: unknown part {part}"))),
    };
    parts(call.ctx(), &url)
}

fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> Result<Value<'js>> {
    let object = Object::new(ctx.clone())?;
    let origin = quirks::origin(url);
    let members: [(&str, &str); 11] = [
        ("href", quirks::href(url)),
        ("origin", &origin),
        ("protocol", quirks::protocol(url)),
        ("username", quirks::username(url)),
        ("password", quirks::password(url)),
        ("host", quirks::host(url)),
        ("hostname", quirks::hostname(url)),
        ("port", quirks::port(url)),
        ("pathname", quirks::pathname(url)),
        ("search", quirks::search(url)),
        ("hash", quirks::hash(url)),
    ];
    for (name, text) in members {
        put(&object, name, string_to_js(ctx, text)?)?;
    }
    Ok(object.into_value())
}
