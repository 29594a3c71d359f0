#pragma once

#include <string>
#include <vector>

#include "report/json.h"

namespace slipstream {

/// A bar that a page draws; nothing where the value is not finite.
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

/// A part of a report, on the console and on a page alike. What is empty is left out.
struct Section {
  std::string title;
  std::string note = {};  ///< explains the figures; on a page only
  std::string tone = {};  ///< "good", "bad" or "unsure": sets it off on a page
  std::vector<std::string> lines = {};
  std::vector<Item> items = {};
  bool is_numbered = false;                         ///< whether `items` are
  std::vector<std::vector<std::string>> rows = {};  ///< of a table; the first is its head
  std::vector<std::size_t> right = {};              ///< columns that are aligned to the right
  std::vector<std::vector<Bar>> bars = {};          ///< of each row below the head
  std::size_t text_bars = 0;  ///< column of the bars on the console; 0: none there
  double top = 0;             ///< the length that is as wide as the page
  double mark = 0;            ///< a length that a dashed line marks; 0: none
  bool is_timeline = false;   ///< draws the lanes of the page's report
  bool is_for_page = false;   ///< not on the console
};

/// For a console: aligned plain text. Names become printable().
std::string to_text(const std::vector<Section>& sections);
/// What page_html() takes for each section.
Json to_json(const Section& section);

}  // namespace slipstream
