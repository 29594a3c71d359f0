#pragma once

#include <string>

#include "report/json.h"

namespace slipstream {

/// Returns one self-contained HTML page (page.html), which is also well-formed XML: it loads
/// nothing, holds `data` as JSON, and draws it with a script when it is opened. `data` has "title",
/// "note" (below the title) and "sections", each in the format of to_json(Section) or of
/// sheet_html(), and may have "report", the report's own JSON. Bytes that are not UTF-8 are
/// replaced.
std::string page_html(const Json& data);

/// Formats `json` in one line, without characters that could end a script element or a line of
/// script.
std::string script_json(const Json& json);

}  // namespace slipstream
