// The roofline of Williams et al. 2009 (https://doi.org/10.1145/1498765.1498785): each kernel by its operations per
// byte and its operations per second, both logarithmic, under what memory and arithmetic of the machine allow.
#include "compiler/driver/page_facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

namespace heddle {

namespace {

/// A logarithmic axis: `least` at place `from`, `most` at place `to`.
struct Axis {
  double least, most, from, to;
  double operator()(double value) const {
    return from + (to - from) * (std::log(value) - std::log(least)) / (std::log(most) - std::log(least));
  }
};

std::string power_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

} // namespace

static double intensity(const RooflinePoint &point) { return point.flops / point.bytes; }
static double gflops(const RooflinePoint &point) { return point.flops / point.ms / 1e6; }

std::string roofline_svg(const PageFacts &facts) {
  std::map<int, RooflinePoint> points;
  for (const PageEntry &entry : facts.entries)
    for (const PageStep &step : entry.steps)
      if (step.kernel >= 0 && step.ms > 0 && step.flops > 0 && step.moved > 0 && step.iterations > 0) {
        const PageKernel &of = facts.kernels[step.kernel];
        auto [point, is_new] = points.try_emplace(step.kernel, RooflinePoint{of.name, of.kind});
        point->second.flops += step.flops * double(step.iterations);
        point->second.bytes += step.moved * double(step.iterations);
        point->second.ms += step.ms;
      }
  std::vector<RooflinePoint> list;
  for (const auto &[kernel, point] : points)
    list.push_back(point);
  return facts.roof ? roofline_svg(*facts.roof, list) : "";
}

std::string roofline_svg(const PageRoof &roof, const std::vector<RooflinePoint> &points) {
  if (points.empty())
    return "";
  double ridge = roof.gflops / roof.gigabytes;
  Axis x{ridge / 4, ridge * 4, 70, 700}, y{roof.gflops / 10, roof.gflops * 2, 300, 14};
  for (const RooflinePoint &point : points) {
    x.least = std::min(x.least, intensity(point) / 2);
    x.most = std::max(x.most, intensity(point) * 2);
    y.least = std::min(y.least, gflops(point) / 2);
    y.most = std::max(y.most, gflops(point) * 2);
  }
  y.least = std::min(y.least, x.least * roof.gigabytes);
  std::ostringstream out;
  out << "<div class=\"wide\"><svg width=\"720\" height=\"342\" role=\"img\" aria-label=\"roofline\">\n";
  for (double tick = std::pow(10, std::ceil(std::log10(x.least))); tick <= x.most; tick *= 10)
    out << "<path class=\"grid\" d=\"M" << x(tick) << " 14V300\"/><text x=\"" << x(tick)
        << "\" y=\"316\" text-anchor=\"middle\">" << power_text(tick) << "</text>\n";
  for (double tick = std::pow(10, std::ceil(std::log10(y.least))); tick <= y.most; tick *= 10)
    out << "<path class=\"grid\" d=\"M70 " << y(tick) << "H700\"/><text x=\"64\" y=\"" << y(tick) + 4
        << "\" text-anchor=\"end\">" << power_text(tick) << "</text>\n";
  out << "<text x=\"385\" y=\"336\" text-anchor=\"middle\">operations per byte</text><text x=\"14\" y=\"157\" "
         "text-anchor=\"middle\" transform=\"rotate(-90 14 157)\">Gflop/s</text>\n"
      << "<path class=\"roof\" d=\"M" << x(x.least) << " " << y(x.least * roof.gigabytes) << "L" << x(ridge) << " "
      << y(roof.gflops) << "H700\"/>\n";
  for (const RooflinePoint &point : points)
    out << "<a href=\"#" << point.name << "\"><circle cx=\"" << x(intensity(point)) << "\" cy=\"" << y(gflops(point))
        << "\" r=\"5\" fill=\"" << page_colour(point.kind) << "\"/><text x=\"" << x(intensity(point)) + 8 << "\" y=\""
        << y(gflops(point)) + 4 << "\">" << point.name << "</text></a>\n";
  out << "</svg></div>\n";
  return out.str();
}

} // namespace heddle
