#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/option_text.h"
#include "cli/parts_line.h"
#include "cli/verbs.h"
#include "core/files.h"
#include "core/number_text.h"
#include "report/inspect_report.h"
#include "report/sheet_page.h"
#include "slipstream/datasets/datasets.h"
#include "tools/convert.h"

namespace slipstream {
namespace {

struct InspectVerb {
  std::string path, contact_sheet, json, classes_from;
  unsigned num_workers = 0;
  ContactSheetOptions sheet;
};

void print_changed(const std::vector<std::string>& changed) {
  const std::size_t listed = std::min(kListedSamples, changed.size());
  for (std::size_t i = 0; i < listed; ++i)
    std::cout << "changed: " << printable_name(changed[i]) << "\n";
  if (changed.size() > listed)
    std::cout << "and " << format_count(changed.size() - listed, "more change") << "\n";
}

std::vector<std::string> changed_in(const InspectVerb& verb, const Cli& cli) {
  PartsLine line("parts compared with the manifest");
  CheckOptions options{.threads = verb.num_workers, .stop = cli.interrupted};
  options.progress = [&](std::size_t done, std::size_t all) { line.update(done, all); };
  return check_converted(verb.path, options);
}

std::string make_sheet(const Dataset& dataset, const Inspection& found, const InspectVerb& verb) {
  if (verb.contact_sheet.empty()) return "";
  return sheet_file(contact_sheet(dataset, found, verb.sheet), "Images of " + verb.path,
                    verb.contact_sheet);
}

int inspect_path(const InspectVerb& verb, const Cli& cli) {
  refuse_replaced_files({.files = {{"--contact-sheet", verb.contact_sheet}, {"--json", verb.json}}},
                        {{"the data", verb.path}, {"--classes-from", verb.classes_from}});
  require_name_of_sheet({"--contact-sheet", verb.contact_sheet});
  OutputFile sheet(verb.contact_sheet), json(verb.json);
  const auto dataset = verb.classes_from.empty()
                           ? open_dataset(verb.path)
                           : open_dataset(verb.path, class_names_from(verb.classes_from));
  if (dataset->size() == 0)
    throw Error("the data set '" + verb.path +
                "' contains no samples: a model cannot be trained on it");
  InspectOptions options{.threads = verb.num_workers, .stop = cli.interrupted};
  InspectReport report{verb.path, {}, {}};
  {
    PartsLine line("samples");
    options.progress = [&](std::size_t done) { line.update(done, dataset->size()); };
    report.found = inspect(*dataset, options);
  }
  const Inspection& found = report.found;
  std::cout << to_text(found);
  if (found.inspected == found.samples) report.changed = changed_in(verb, cli);
  print_changed(report.changed);
  if (verb.json.empty() && std::max(found.damaged.size(), report.changed.size()) > kListedSamples)
    std::cout << "--json FILE lists all of them\n";
  const std::string text = inspect_report_json(report);
  if (cli.interrupted()) {
    std::cout << "interrupted: samples that were not read by then are not counted\n";
    write_all({{&json, text}});
    return kInterrupted;
  }
  std::string picture;
  try {
    picture = make_sheet(*dataset, found, verb);
  } catch (const Error&) {
    write_all({{&json, text}});
    throw;
  }
  write_all({{&json, text}, {&sheet, picture}});
  return found.damaged.empty() && report.changed.empty() ? kDone : kNo;
}

}  // namespace

void add_inspect(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<InspectVerb>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Reads a data set and reports its contents and its bad samples (exit code 3)");
  command->add_option("path", verb->path, "Data set: a folder, list, .tar shard or .npy file")
      ->required();
  command
      ->add_option("--contact-sheet", verb->contact_sheet,
                   "Writes 64 images, spread over the classes, to this file: .png for the images "
                   "alone, .html for a page with the names of their classes")
      ->group(kOutputGroup);
  command
      ->add_option("--json", verb->json, "Writes the report, with every bad sample, to this file")
      ->group(kOutputGroup);
  command->add_option("--classes-from", verb->classes_from, kClassesFromHelp)->group(kDataGroup);
  add_background(*command, verb->sheet.background,
                 "Background of the contact sheet and of transparent pixels");
  command
      ->add_option("--num-workers", verb->num_workers, "Number of threads (default: one per core)")
      ->check(at_least(1))
      ->group(kLoaderGroup);
  command->callback([=, &cli, &chosen] {
    if (verb->contact_sheet.empty() && command->count("--background") > 0)
      throw Refused(
          "--background has no effect without a contact sheet: give --contact-sheet, or leave it "
          "out");
    chosen = [verb, &cli] { return inspect_path(*verb, cli); };
  });
}

}  // namespace slipstream
