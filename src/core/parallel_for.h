#pragma once

#include <cstddef>
#include <functional>

namespace slipstream {

/// What one thread does with its items, one after the other. False: no more items are handed out.
using ItemWork = std::function<bool(std::size_t item)>;

/// Hands out items 0 to items-1 in order to the calling thread and others, `threads` in all (0: one
/// a core) and never more than items. Each calls `make_work` once, for buffers of its own. Returns
/// when no thread works any more. An exception ends the handing out; thrown is that of the lowest
/// item, which is the same for any number of threads: all items before it were handed out earlier.
void parallel_for(std::size_t items, unsigned threads, const std::function<ItemWork()>& make_work);

}  // namespace slipstream
