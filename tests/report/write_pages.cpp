#include <filesystem>
#include <fstream>
#include <iostream>

#include "report/doctor_samples.h"
#include "report/samples.h"
#include "report/sheet_page.h"

// Writes a page for each sample report, the doctor's text for the console, and a sheet of images:
// write_pages FOLDER.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_pages FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  for (const auto& [name, report] : slipstream::all_doctor_reports()) {
    std::ofstream(folder / (name + ".html")) << slipstream::doctor_html(report);
    std::ofstream(folder / (name + ".txt")) << slipstream::doctor_text(report);
  }
  std::ofstream(folder / "sheet.html") << sheet_html(slipstream::sample_sheet(), "A sheet");
}
