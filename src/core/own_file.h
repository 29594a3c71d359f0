#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace slipstream {

/// Makes or replaces a file whose name the user did not choose, such as one in a folder that the
/// user named. As write_file_atomically(), but a link of that name is replaced and not followed: it
/// may have come with a foreign folder and name any file of the user.
void write_own_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_own_file(const std::filesystem::path& path, std::string_view text);

}  // namespace slipstream
