// SPDX-License-Identifier: GPL-2.0-or-later
// Writes the pages and pictures that the tests of this folder look at: page_samples FOLDER
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "sim/report_html.hpp"
#include "sim/timeline_svg.hpp"
#include "support/random_record.hpp"

namespace {

using namespace tranche::sim;

bool wrote(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    return file.good();
}

bool wrote_both(const std::string& path, const std::vector<const SimRecord*>& records) {
    return wrote(path + ".html", report_html(records)) &&
           wrote(path + ".svg", timeline_svg(records));
}

SimRecord small_record(std::uint64_t seed, const char* policy) {
    RandomRecordShape shape;
    shape.seed = seed;
    shape.policy = policy;
    SimRecord record = random_record(shape);
    record.drains.push_back({"n2", "gpu-health:missing", 3600, 5400, 9000});
    return record;
}

// 256 GPUs, 14 days: the size of the experiments.
SimRecord large_record(const char* policy) {
    RandomRecordShape shape;
    shape.nodes = 32;
    shape.hours = 336;
    shape.jobs = 9000;
    shape.teams = 20;
    shape.mean_runtime_seconds = 4 * 3600;
    shape.policy = policy;
    return random_record(shape);
}

// Names as nobody should give them.
SimRecord hostile_record() {
    SimRecord record = small_record(3, "<script>document.title='taken'</script>");
    for (JobRecord& job : record.jobs) {
        job.job.id = "</script><script>document.title='taken'</script>" + job.job.id;
        job.job.name = "\"'><img src=x onerror=\"document.title='taken'\">\xff\x01]]>";
        job.job.wait_class = "<b>&\xc3(" + std::string(60, 'x');
        if (!job.job.budget.empty()) {
            job.job.budget = "a<!--" + job.job.budget + std::string(80, 'w');
        }
    }
    for (BudgetRecord& budget : record.budgets) {
        budget.name = "a<!--" + budget.name + std::string(80, 'w');
    }
    record.cluster.nodes[0].name = "<&\"'>";
    record.notes.push_back("<script>document.title='taken'</script>");
    return record;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "page_samples: one folder is expected\n");
        return 2;
    }
    const std::string folder = std::string(arguments[1]) + "/";
    const SimRecord small = small_record(1, "budget");
    const SimRecord other = small_record(7, "slots");
    const SimRecord large = large_record("budget");
    const SimRecord hostile = hostile_record();
    SimRecord empty;
    empty.policy = "fifo";
    const bool done = wrote_both(folder + "small", {&small}) &&
                      wrote_both(folder + "compare", {&other, &small}) &&
                      wrote_both(folder + "large", {&large}) &&
                      wrote_both(folder + "hostile", {&hostile}) &&
                      wrote_both(folder + "empty", {&empty});
    return done ? 0 : 1;
}
