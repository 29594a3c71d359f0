#pragma once

#include <string>

#include "tools/sheet.h"

namespace slipstream {

/// Returns `sheet` as a page (page_html()) that shows each image with its captions as text. Marked
/// images are highlighted in red.
std::string sheet_html(const Sheet& sheet, const std::string& title);

/// Returns the content of a file called `path`: sheet_html() if that ends in .html, else
/// sheet_png().
std::string sheet_file(const Sheet& sheet, const std::string& title, const std::string& path);

}  // namespace slipstream
