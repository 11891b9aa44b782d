import './style.css';

export const metadata = { title: 'Requant' };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
