// Character references of HTML in prompts. Host-only.
#pragma once

#include <string>
#include <string_view>

namespace vsa::text {

/// Replaces references such as `&amp;`, `&#39;` and `&#x27;` by their characters, also where they
/// were escaped more than once: `&amp;lt;` becomes `<`. Numbers as HTML reads them: 128 to 159 mean
/// Windows-1252, and what is no character becomes U+FFFD. Of the names, those that captions of
/// images and videos hold: the five of XML, spaces, dashes, quotation marks and a few signs. Any
/// other `&` stays as it is, also that of a reference without its `;`.
std::string unescape_html(std::string_view text);

}  // namespace vsa::text
