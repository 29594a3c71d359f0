#pragma once

#include <string>

#include "report/json.h"

namespace slipstream {

/// One self-contained HTML page (page.html), which is well-formed XML too: it loads nothing from
/// anywhere, holds `data` as JSON, and draws it with a script when it is opened. `data` has
/// "title", "note" (below the title), "sections", each as to_json(Section) or as sheet_html() makes
/// it, and may have "report", the report's own JSON. Bytes that are not UTF-8 are replaced.
std::string page_html(const Json& data);

/// `json` in one line, without characters that could end a script element or a line of script.
std::string script_json(const Json& json);

}  // namespace slipstream
