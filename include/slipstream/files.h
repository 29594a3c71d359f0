#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace slipstream {

/// Throws Refused, saying why, unless a file can be written at `path`: its folder exists, a file
/// can be made in it, and what has that name is no folder and may be written. What is there is left
/// as it is. For outputs named on a command line, before the work whose result they shall take.
void check_writable(const std::filesystem::path& path);

/// Makes or replaces the file `path`. A new name or a regular file gets all of `bytes` or stays
/// as it was, whenever the process ends: they are written beside it and then renamed. (Not synced:
/// a power cut may lose them.) Links and devices (/dev/stdout) are written through.
/// Throws Error with the path and the reason, such as a full disk.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// All that the file, link or pipe `path` holds. Throws Error with the path and the reason.
std::string read_text(const std::filesystem::path& path);

}  // namespace slipstream
