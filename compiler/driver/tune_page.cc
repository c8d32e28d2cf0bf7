// What a search has found: its course, the kernels under the machine's roofs, and for each kernel what its candidates
// took beside what they were expected to.
#include "compiler/driver/tune_page.h"

#include "compiler/driver/measure.h"
#include "compiler/driver/page_facts.h"
#include "compiler/tune/roof.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>

namespace heddle {

namespace {

std::string two_decimals(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

class TunePage {
public:
  TunePage(const tune::Searcher &search, const TuneFacts &facts)
      : search_(search), facts_(facts), roof_(measure_roof(facts.threads)) {
    order_.resize(search.tasks().size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, std::greater(), [&](size_t task) { return usual(task); });
  }

  std::string text() {
    out_ << page_begin(facts_.model + ": tuned");
    head();
    curve();
    roofline();
    kernels();
    for (size_t task : order_)
      candidates(task);
    out_ << "</body>\n</html>\n";
    return out_.str();
  }

private:
  const tune::Task &task(size_t number) const { return search_.tasks()[number]; }
  const tune::Found &found(size_t number) const { return search_.found(number); }
  /// Of all its calls; 0: not measured.
  double usual(size_t number) const { return task(number).calls * found(number).seconds[0]; }
  double best(size_t number) const { return task(number).calls * found(number).seconds[found(number).best()]; }
  std::string anchor(size_t number) const {
    std::string out = task(number).kernel;
    for (int64_t size : task(number).sizes)
      out += "-" + std::to_string(size);
    return out;
  }

  void head() {
    out_ << "<h1>" << escaped(facts_.model) << "</h1>\n<p class=\"soft\">" << escaped(facts_.sizes) << " on "
         << escaped(facts_.machine) << ", " << escaped(facts_.target) << ", " << facts_.threads
         << (facts_.threads == 1 ? " thread" : " threads") << "</p>\n<div class=\"facts\">";
    auto fact = [&](const std::string &value, const std::string &what) {
      out_ << "<div><b>" << escaped(value) << "</b>" << escaped(what) << "</div>";
    };
    size_t measured = 0, all = 0, useless = 0;
    for (size_t i : order_) {
      measured += found(i).measured();
      all += task(i).options.size() > 1 ? task(i).options.size() : 0;
      useless += size_t(std::ranges::count_if(found(i).faults, [](const std::string &why) { return !why.empty(); }));
    }
    if (facts_.compared.rounds > 0) {
      fact(time_text(facts_.compared.before * 1e3), "whole model, usual schedules");
      fact(time_text(facts_.compared.after * 1e3),
           facts_.kept ? "with what was found, kept" : "with what was found, not kept");
    }
    fact(std::to_string(measured) + " of " + std::to_string(all), "candidates measured");
    fact(std::to_string(useless), "of no use");
    fact(std::to_string(std::lround(search_.spent())) + " s", "of measuring");
    fact(std::to_string(std::lround(roof_.f32())) + " GFLOP/s", "multiply-adds of f32");
    fact(two_decimals(roof_.gigabytes) + " GB/s", "from memory");
    out_ << "</div>\n";
  }

  /// The sum of all kernels by the best schedules known, over the time spent.
  void curve() {
    struct Point {
      double spent, seconds;
    };
    std::vector<double> known; // of all calls of each task, until its turn by the usual schedule
    for (size_t i = 0; i < order_.size(); ++i)
      known.push_back(usual(i) > 0 ? usual(i) : task(i).calls * task(i).options[0].expected);
    auto sum = [&] { return std::accumulate(known.begin(), known.end(), 0.0); };
    const double at_first = search_.usual_seconds();
    std::vector<Point> moments = {{0, at_first}};
    for (const tune::Searcher::Moment &moment : search_.curve())
      if (moment.seconds > 0) {
        known[moment.task] = task(moment.task).calls * moment.seconds;
        moments.push_back({moment.spent, sum()});
      }
    if (moments.size() < 2 || moments.back().spent <= 0)
      return;
    double least = at_first, most = at_first;
    for (const Point &moment : moments)
      most = std::max(most, moment.seconds), least = std::min(least, moment.seconds);
    most = std::max(most, least * 1.01);
    double low = least - 0.2 * (most - least) - 1e-12, begin = moments.front().spent, end = moments.back().spent;
    auto x = [&](double spent) { return 90 + 610 * (spent - begin) / (end - begin); };
    auto y = [&](double seconds) { return 220 - 196 * (seconds - low) / (most - low); };
    out_ << "<h2 id=\"search\">search</h2>\n<p>All kernels together by the fastest schedules known so far; a kernel "
            "counts with its usual schedule until another is measured. The dashed line is what the usual schedules "
            "take.</p>\n"
         << "<div class=\"wide\"><svg width=\"720\" height=\"258\" role=\"img\" aria-label=\"search curve\">\n";
    for (double at : {most, (most + least) / 2, least})
      out_ << "<path class=\"grid\" d=\"M90 " << y(at) << "H700\"/><text x=\"84\" y=\"" << y(at) + 4
           << "\" text-anchor=\"end\">" << time_text(at * 1e3) << "</text>\n";
    for (int part = 0; part <= 4; ++part) {
      double at = begin + (end - begin) * part / 4;
      out_ << "<text x=\"" << x(at) << "\" y=\"238\" text-anchor=\"middle\">" << std::lround(at) << " s</text>\n";
    }
    out_ << "<path class=\"grid\" stroke-dasharray=\"4 4\" d=\"M90 " << y(at_first)
         << "H700\"/>\n<path class=\"roof\" d=\"M";
    for (size_t i = 0; i < moments.size(); ++i) {
      if (i > 0) // what was known holds until the next batch has ended
        out_ << "H" << x(moments[i].spent) << "V" << y(moments[i].seconds);
      else
        out_ << x(moments[i].spent) << " " << y(moments[i].seconds);
    }
    out_ << "\"/>\n</svg></div>\n";
  }

  void roofline() {
    std::vector<RooflinePoint> points;
    for (size_t i : order_)
      if (task(i).operations > 0 && task(i).bytes > 0 && found(i).seconds[0] > 0)
        points.push_back(
            {anchor(i), task(i).kind, task(i).operations, task(i).bytes, found(i).seconds[found(i).best()] * 1e3});
    std::string drawing = roofline_svg({roof_.f32(), roof_.gigabytes, facts_.threads}, points);
    if (!drawing.empty())
      out_ << "<h2 id=\"roofline\">roofline</h2>\n<p>Kernels with products, by the fastest schedule of each.</p>\n"
           << drawing;
  }

  /// What the machine's limits allow a call of a task.
  double bound(const tune::Task &task) const {
    return std::max(task.operations / roof_.f32(), task.bytes / roof_.gigabytes) * 1e-9;
  }

  void kernels() {
    double all = 0;
    for (size_t i : order_)
      all += best(i);
    out_ << "<h2 id=\"kernels\">kernels</h2>\n<div class=\"wide\"><table><tr><th>kernel</th><th>sizes</th><th "
            "class=\"n\">calls</th><th class=\"n\">usual</th><th class=\"n\">fastest</th><th class=\"n\">usual / "
            "fastest</th><th class=\"n\">of all</th><th class=\"n\">of roof</th><th>schedule</th></tr>\n";
    for (size_t i : order_) {
      const tune::Task &of = task(i);
      const tune::Found &known = found(i);
      out_ << "<tr><td><a class=\"chip\" style=\"background:" << page_colour(of.kind) << "\" href=\"#" << anchor(i)
           << "\">" << escaped(of.kernel + " " + of.kind) << "</a></td><td><code>" << tune::sizes_text(of.sizes)
           << "</code></td><td class=\"n\">" << of.calls << "</td>";
      if (known.seconds[0] > 0) {
        double fastest = known.seconds[known.best()];
        out_ << "<td class=\"n\">" << time_text(known.seconds[0] * 1e3) << "</td><td class=\"n\">"
             << time_text(fastest * 1e3) << "</td><td class=\"n\">" << two_decimals(known.seconds[0] / fastest)
             << "</td><td class=\"n\">" << percent(best(i) / all) << "</td><td class=\"n\">"
             << percent(bound(of) / fastest) << "</td>";
      } else {
        out_ << "<td class=\"n\" colspan=\"5\">"
             << escaped(!known.failure.empty()   ? "not measured: " + known.failure
                        : of.options.size() == 1 ? "there is one schedule"
                                                 : "not measured")
             << "</td>";
      }
      out_ << "<td><code>" << escaped(of.options[known.best()].row) << "</code></td></tr>\n";
    }
    out_ << "</table></div>\n";
    for (const std::string &kernel : facts_.left_out)
      out_ << "<p>" << escaped(kernel) << ": not measured, its sizes change from call to call</p>\n";
  }

  /// From the fastest on, what is not measured last.
  void candidates(size_t number) {
    const tune::Task &of = task(number);
    const tune::Found &known = found(number);
    out_ << "<h3 id=\"" << anchor(number) << "\">" << escaped(of.kernel + " " + of.kind) << "</h3>\n";
    std::vector<size_t> order(of.options.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {},
                             [&](size_t option) { return known.seconds[option] > 0 ? known.seconds[option] : 1e9; });
    out_ << "<details" << (known.best() > 0 ? " open" : "") << "><summary>" << known.measured() << " of "
         << of.options.size()
         << " candidates measured</summary>\n<div class=\"wide\"><table><tr><th></th><th class=\"n\">measured</th><th "
            "class=\"n\">expected</th><th>schedule</th><th>layouts</th></tr>\n";
    for (size_t option : order) {
      std::string time = known.seconds[option] > 0      ? time_text(known.seconds[option] * 1e3)
                         : known.faults[option].empty() ? "-"
                                                        : known.faults[option];
      out_ << "<tr><td>" << (option == 0 ? "usual" : "") << (option == known.best() ? " fastest" : "")
           << "</td><td class=\"n\">" << escaped(time) << "</td><td class=\"n\">"
           << (of.options[option].expected > 0 ? time_text(of.options[option].expected * 1e3) : "-")
           << "</td><td><code>" << escaped(of.options[option].row) << "</code></td><td><code>"
           << escaped(of.options[option].layouts) << "</code></td></tr>\n";
    }
    out_ << "</table></div></details>\n";
  }

  const tune::Searcher &search_;
  const TuneFacts &facts_;
  Roof roof_;
  std::vector<size_t> order_; // of tasks, those that take most of the time first
  std::ostringstream out_;
};

} // namespace

std::string tune_page(const tune::Searcher &search, const TuneFacts &facts) { return TunePage(search, facts).text(); }

} // namespace heddle
