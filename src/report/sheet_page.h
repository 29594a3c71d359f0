#pragma once

#include <string>

#include "tools/sheet.h"

namespace slipstream {

/// `sheet` as a page (page_html()) that shows each image with its captions as text. Marked images
/// are set off in red.
std::string sheet_html(const Sheet& sheet, const std::string& title);

/// The bytes of a file called `path`: sheet_html() where that ends in .html, else sheet_png().
std::string sheet_file(const Sheet& sheet, const std::string& title, const std::string& path);

}  // namespace slipstream
