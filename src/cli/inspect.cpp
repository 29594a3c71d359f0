#include "slipstream/inspect.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/verbs.h"
#include "slipstream/convert.h"
#include "slipstream/datasets.h"
#include "slipstream/files.h"

namespace slipstream {
namespace {

struct InspectVerb {
  std::string path, contact_sheet;
  unsigned workers = 0;
};

int inspect_path(const InspectVerb& verb, const Cli& cli) {
  OutputFile sheet(verb.contact_sheet);
  const auto dataset = open_dataset(verb.path);
  const Inspection found =
      inspect(*dataset, {.threads = verb.workers, .decode = {}, .stop = cli.interrupted});
  std::cout << to_text(found);
  const std::vector<std::string> changed = check_converted(verb.path, verb.workers);
  for (const std::string& change : changed) std::cout << "changed: " << printable(change) << "\n";
  if (found.inspected < found.samples) return kInterrupted;
  if (!verb.contact_sheet.empty()) {
    const std::vector<std::byte> png = contact_sheet(*dataset);
    sheet.write({reinterpret_cast<const char*>(png.data()), png.size()});
  }
  return found.damaged.empty() && changed.empty() ? kDone : kNo;
}

}  // namespace

void add_inspect(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<InspectVerb>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Reads all of a data set; says what it holds and what is damaged (exit code 3)");
  command->add_option("path", verb->path, "Folder, list, .tar shard or .npy file")->required();
  command->add_option("--contact-sheet", verb->contact_sheet,
                      "Writes a PNG of the first 64 images to this file");
  command->add_option("--workers", verb->workers, "Threads (default: one a core)")
      ->check(at_least(1));
  command->callback(
      [=, &cli, &chosen] { chosen = [verb, &cli] { return inspect_path(*verb, cli); }; });
}

}  // namespace slipstream
