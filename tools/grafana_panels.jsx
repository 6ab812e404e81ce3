// Panels of a Grafana dashboard, drawn by Grafana's own components (`@grafana/ui`). `window.DATA` has the panels as the
// dashboard's JSON has them, what Prometheus answered to each, and the time they are about.
import { createRoot } from "react-dom/client";
import { FieldType, ThemeContext, applyFieldOverrides, createTheme, dateTime, toDataFrame } from "@grafana/data";
import { PanelChrome, TimeSeries } from "@grafana/ui";

const theme = createTheme({ colors: { mode: "light" } });
const WIDTH = 620;
const HEIGHT = 250;

// What Grafana's panel of this type takes where a dashboard says nothing.
const USUAL = { color: { mode: "palette-classic" }, custom: { lineWidth: 1, fillOpacity: 0 } };

function frames(panel, answer) {
  const data = answer.map((series) => {
    const config = { ...USUAL, ...panel.fieldConfig.defaults, displayName: series.name };
    return toDataFrame({
      fields: [
        { name: "Time", type: FieldType.time, values: series.times.map((t) => t * 1000), config: {} },
        { name: series.name, type: FieldType.number, values: series.values, config },
      ],
    });
  });
  return applyFieldOverrides({ data, fieldConfig: panel.fieldConfig, replaceVariables: (text) => text, theme });
}

function Panel({ panel, answer, range }) {
  const drawn = (width, height) => (
    <TimeSeries
      frames={frames(panel, answer)}
      timeRange={range}
      timeZone="utc"
      width={width}
      height={height}
      legend={panel.options.legend}
    />
  );
  return (
    <div style={{ width: WIDTH, height: HEIGHT, margin: 4 }}>
      <PanelChrome title={panel.title} width={WIDTH} height={HEIGHT}>
        {(width, height) => (answer.length ? drawn(width, height) : "No data")}
      </PanelChrome>
    </div>
  );
}

const { panels, answers, began, ended } = window.DATA;
const [from, to] = [dateTime(began * 1000), dateTime(ended * 1000)];
const sheet = {
  display: "flex",
  flexWrap: "wrap",
  width: 2 * (WIDTH + 8),
  background: theme.colors.background.canvas,
  fontFamily: theme.typography.fontFamily,
};
createRoot(document.getElementById("root")).render(
  <ThemeContext.Provider value={theme}>
    <div style={sheet}>
      {panels.map((panel, place) => (
        <Panel key={place} panel={panel} answer={answers[place]} range={{ from, to, raw: { from, to } }} />
      ))}
    </div>
  </ThemeContext.Provider>,
);
