#include <algorithm>

#include "report/doctor_bars.h"
#include "report/doctor_page_style.h"
#include "report/doctor_tables.h"
#include "report/doctor_words.h"
#include "report/markup.h"
#include "report/text.h"

namespace slipstream {
namespace {

// Nothing may be loaded or run, not even the icon that browsers ask for.
constexpr const char* kHead =
    "<meta charset=\"utf-8\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; img-src data:\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<link rel=\"icon\" href=\"data:,\"/>\n";

std::string section(const std::string& title, const std::string& note, const std::string& body) {
  if (body.empty()) return "";
  return "<section>" + element("h2", "", title) + (note.empty() ? "" : element("p", "soft", note)) +
         body + "</section>\n";
}

std::string_view tone_of(Culprit verdict) {
  if (verdict == Culprit::not_enough_evidence) return "unsure";
  return verdict == Culprit::gpu || verdict == Culprit::none ? "good" : "bad";
}

std::string paragraph(const std::string& words) {
  return words.empty() ? "" : element("p", "", escaped(words));
}

std::string headline_figures(const Diagnosis& diagnosis) {
  const auto pair = [](const char* name, const std::string& figure) {
    return element("div", "", element("dt", "", name) + element("dd", "num", figure));
  };
  return element("dl", "figures",
                 pair("now, steps/s", figure_markup(diagnosis.rate)) +
                     pair("ceiling, steps/s", figure_markup(diagnosis.ceiling)) +
                     pair("the device waits", percent_markup(waiting_share(diagnosis))));
}

std::string verdict(const DoctorReport& report) {
  const Diagnosis& diagnosis = report.diagnosis;
  std::string culprits;
  for (const Culprit culprit : diagnosis.culprits)
    culprits += (culprits.empty() ? "" : ", ") + spoken(culprit);
  const std::string_view headline = headline_of(diagnosis.verdict);
  const std::string word = "Verdict: " + element("span", "word", escaped(spoken_verdict(report)));
  return element(
             "section", "verdict " + std::string(tone_of(diagnosis.verdict)),
             element("p", "soft", word) +
                 (headline.empty() ? "" : element("h2", "", escaped(headline))) +
                 paragraph(diagnosis.reason) +
                 (diagnosis.culprits.size() > 1 ? paragraph("Most gain first: " + culprits + ".")
                                                : "") +
                 paragraph(cores_sentence(report)) + headline_figures(diagnosis)) +
         "\n";
}

std::string warnings(const DoctorReport& report) {
  std::string items;
  for (const std::string& warning : warnings_of(report))
    items += element("li", "", escaped(warning));
  if (items.empty()) return "";
  return element("section", "warnings", element("h2", "", "Warnings") + element("ul", "", items)) +
         "\n";
}

std::string key(const char* css_class, const char* words) {
  const std::string shape =
      std::string(css_class) == "ceiling"
          ? "<line class=\"ceiling\" x1=\"50%\" x2=\"50%\" y1=\"0\" y2=\"14\"/>"
          : std::string("<rect class=\"") + css_class + "\" width=\"100%\" y=\"1\" height=\"12\"/>";
  return element("span", "",
                 "<svg role=\"presentation\" height=\"14\">" + shape + "</svg>" + words);
}

std::string level_name(const Level& level) {
  std::string remarks = is_ceiling(level) ? "the ceiling" : "";
  if (level.items > 0)
    remarks += (remarks.empty() ? "" : ", ") + std::to_string(level.items) + " in the cache";
  return escaped(level.name) + (remarks.empty() ? "" : element("small", "", remarks));
}

std::string level_figures(const Level& level, const Measured& ceiling) {
  std::string text = figure_markup(level.with_training.value_or(Measured{}));
  if (is_there(level.with_training) && is_there(ceiling) && ceiling.value > 0)
    text += " \u00b7 " + percent(level.with_training->value / ceiling.value);
  if (is_there(level.loader_alone))
    text += element("small", "", "loader alone " + figure(level.loader_alone));
  return text;
}

std::string failure(const std::string& error, const std::string& what) {
  return error.empty() ? "" : element("span", "failed", what + escaped(error));
}

std::string ladder(const DoctorReport& report) {
  const RateBars bars(report);
  std::string rows;
  for (const Level& level : report.observed.levels) {
    const std::string label = label_of(level);
    const std::string spoken = label + ": " + figure(level.with_training) +
                               " steps/s with training, " + figure(level.loader_alone) +
                               " loader alone";
    rows += element("li", "",
                    element("span", "name", level_name(level)) +
                        element("span", "plot", bars.level(level, spoken)) +
                        element("span", "num", level_figures(level, report.diagnosis.ceiling)) +
                        failure(level.error, "not measured: ") +
                        failure(level.loader_alone_error, "loader alone not measured: "));
  }
  if (rows.empty()) return "";
  return element("p", "legend soft",
                 key("bar", "with training") + key("starved", "below 95 % of the ceiling") +
                     key("drained", "the loader alone, nobody training") +
                     key("ceiling", "the ceiling")) +
         element("ul", "rows ladder", rows);
}

/// Options stay whole where lines break: "--data", not "-" and "-data".
std::string unbroken_options(const std::string& command) {
  std::string markup;
  for (std::size_t begin = 0; begin < command.size();) {
    const std::size_t blank = std::min(command.find_first_of(" \n", begin), command.size());
    const std::string word = escaped(command.substr(begin, blank - begin));
    markup += word.starts_with("-") ? element("span", "", word) : word;
    if (blank < command.size()) markup += command[blank];
    begin = blank + 1;
  }
  return markup;
}

std::string change_markup(const Change& change, const DoctorReport& report, const RateBars& bars) {
  const auto badge = [](const std::string& words) { return " " + element("span", "badge", words); };
  std::string text = element("h3", "", escaped(change.what));
  std::string gain = "gain not known";
  if (is_there(change.predicted)) {
    gain = (change.is_bound ? "at most " : "") + figure_markup(change.predicted) + " steps/s";
    if (is_there(change.gain)) gain += ", " + figure_markup(change.gain) + " times as fast";
  }
  if (change.against != Culprit::none) gain += badge("against " + escaped(spoken(change.against)));
  if (change.apply) gain += badge("<code>--apply</code> does it");
  text += element("p", "num", gain);
  if (is_there(change.predicted))
    text += bars.rate(change.predicted, "bar", prediction(change), report.diagnosis.rate);
  if (!change.how.empty()) text += element("pre", "", unbroken_options(change.how));
  return element("li", "", text);
}

std::string changes(const DoctorReport& report) {
  const RateBars bars(report);
  std::string items;
  for (const Change& change : report.diagnosis.changes)
    items += change_markup(change, report, bars);
  return items.empty() ? "" : element("ol", "changes", items);
}

std::string costs(const DoctorReport& report) {
  const std::string table = costs_table(report);
  if (table.empty()) return "";
  return element("p", "legend soft", key("bar", "working, on a core") + key("drained", "waiting")) +
         table;
}

std::string outcome(const DoctorReport& report) {
  if (!report.outcome) return "";
  const Outcome& outcome = *report.outcome;
  const RateBars bars(report);
  std::string rows;
  const auto add = [&](const char* name, const Measured& rate, const char* css_class) {
    rows +=
        element("li", "",
                element("span", "name", name) +
                    element("span", "plot",
                            bars.rate(rate, css_class, std::string(name) + ": " + figure(rate))) +
                    element("span", "num", figure_markup(rate)));
  };
  add("before", outcome.before, "now");
  add("predicted", outcome.predicted, "s1");
  add("measured", outcome.measured, "bar");
  std::string applied;
  for (const std::string& change : outcome.changes) applied += element("li", "", escaped(change));
  return paragraph(outcome_sentence(outcome)) + element("ul", "rows", rows) +
         (applied.empty() ? "" : "<p>Applied:</p>" + element("ul", "", applied));
}

std::string utilization(const DoctorReport& report) {
  std::string rows;
  for (const Reading& reading : readings_of(report)) {
    const std::string width =
        reading.share ? fixed(100 * std::clamp(*reading.share, 0.0, 1.0), 2) + "%" : "0%";
    const std::string meter =
        "<svg role=\"presentation\" height=\"12\"><rect class=\"track\" "
        "width=\"100%\" height=\"100%\"/><rect class=\"" +
        std::string(reading.is_coarse ? "drained" : "bar") + "\" height=\"12\" width=\"" + width +
        "\"/></svg>";
    rows += element("li", "",
                    element("span", "name", escaped(reading.name)) +
                        element("span", "plot", reading.share ? meter : "") +
                        element("span", "num", element("b", "", reading.text)));
  }
  return element("ul", "rows", rows);
}

}  // namespace

std::string doctor_html(const DoctorReport& report) {
  const std::string title = "Slipstream doctor: " + escaped(report.workload.name);
  const std::string main =
      element("header", "",
              element("h1", "", title) + element("p", "soft", escaped(setting_of(report)))) +
      "\n" + verdict(report) + warnings(report) +
      section(
          "The ladder",
          "Steps per second with everything up to this point taken from a cache, from all cached "
          "to nothing.",
          ladder(report)) +
      section("What to change",
              "Each change with what it alone is predicted to give, most gain first.",
              changes(report)) +
      section("Outcome", "Steps per second, before and after the changes.", outcome(report)) +
      section("What a sample costs", "Measured in one worker while nothing else runs.",
              costs(report)) +
      section("What a batch costs on the device", "Each step measured alone, on a cached batch.",
              device_table(report)) +
      section(
          "A few steps, lane by lane",
          "Measured with nothing cached. A lane is a CUDA stream, or a host thread where there is "
          "no GPU. Boxes are batches; the gaps between them are waiting.",
          lanes_timeline(report.lanes)) +
      section("How busy device and cores were", escaped(report.observed.utilization.note),
              utilization(report)) +
      section("Where and how this was measured", "", environment_list(report));
  return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n" +
         std::string(kHead) + element("title", "", title) + "\n<style>" + kDoctorStyle +
         "</style>\n</head>\n<body>\n<main>\n" + main +
         "<footer class=\"soft\">Figures in brackets are 95 % intervals.</footer>\n</main>\n"
         "</body>\n</html>\n";
}

}  // namespace slipstream
