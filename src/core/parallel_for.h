#pragma once

#include <cstddef>
#include <functional>

namespace slipstream {

/// Processes one item. Returning false stops the distribution of further items.
using ItemWork = std::function<bool(std::size_t item)>;

/// Distributes items 0 to items-1, in order, over `threads` threads including the calling one (0:
/// one per core), but never more threads than items. Each thread calls `make_work` once, so that it
/// has its own buffers. Blocks until all threads have finished. An exception stops the
/// distribution. The exception of the lowest item is rethrown, which is the same for any number of
/// threads because all items before it were distributed earlier.
void parallel_for(std::size_t items, unsigned threads, const std::function<ItemWork()>& make_work);

}  // namespace slipstream
