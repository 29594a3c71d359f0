#pragma once

#include <string>
#include <vector>

#include "report/json.h"

namespace slipstream {

/// A bar on a page. Nothing is drawn if its length is not finite.
struct Bar {
  Measured length;
  std::string name = {};     ///< what it shows
  std::string look = "bar";  ///< a class of page.html: "bar", "starved" or "second"
};

/// An entry of a list.
struct Item {
  std::string text;  ///< one or more lines
  std::vector<Bar> bars = {};
};

/// A part of a report, on the console and on a page. Empty members are omitted.
struct Section {
  std::string title;
  std::string note = {};  ///< explains the numbers; only on a page
  std::string tone = {};  ///< "good", "bad" or "unsure": its highlighting on a page
  std::vector<std::string> lines = {};
  std::vector<Item> items = {};
  bool is_numbered = false;                         ///< true if `items` are numbered
  std::vector<std::vector<std::string>> rows = {};  ///< rows of a table; the first is its header
  std::vector<std::size_t> right = {};              ///< columns that are aligned to the right
  std::vector<std::vector<Bar>> bars = {};          ///< bars of each row after the header
  std::size_t text_bars = 0;  ///< column of the bars on the console; 0 for no bars
  double top = 0;             ///< the length that fills the width of the page
  double mark = 0;            ///< a length that a dashed line marks; 0 for none
  bool is_timeline = false;   ///< true to draw the lanes of the page's report
  bool is_for_page = false;   ///< true to omit it on the console
};

/// Returns aligned plain text for a console. Names are passed through printable().
std::string to_text(const std::vector<Section>& sections);
/// Returns the JSON of a section for page_html().
Json to_json(const Section& section);

}  // namespace slipstream
