#include "datasets/skipped_json.h"

namespace slipstream {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<SkippedSample>& skipped) {
  Json list = Json::array();
  for (const SkippedSample& each : skipped)
    list.push_back({{"sample", each.sample}, {"message", each.message}});
  return list;
}

std::vector<SkippedSample> skipped_in(const Json& json) {
  std::vector<SkippedSample> skipped;
  if (!json.contains("skipped")) return skipped;
  for (const Json& each : json.at("skipped"))
    skipped.push_back(
        {each.at("sample").get<std::uint64_t>(), each.at("message").get<std::string>()});
  return skipped;
}

}  // namespace slipstream
